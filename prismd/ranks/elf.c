#include "prismd/ranks/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int has_interpreter(int fd, const Elf64_Ehdr *h)
{
    for (unsigned i = 0; i < h->e_phnum; i++) {
        Elf64_Phdr p;
        if (pread(fd, &p, sizeof p, (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize)) != (ssize_t)sizeof p)
            return 1;
        if (p.p_type == PT_INTERP)
            return 1;
    }
    return 0;
}

int elf_check(const char *path, struct prism_error *err)
{
    if (access(path, X_OK))
        return prism_error_set(err, PRISM_EXIT_USAGE, "cannot run %s: %s", path, strerror(errno));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    Elf64_Ehdr h;
    int fixed = pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && !memcmp(h.e_ident, ELFMAG, SELFMAG) &&
                h.e_ident[EI_CLASS] == ELFCLASS64 && !has_interpreter(fd, &h);
    close(fd);
    return fixed ? prism_error_set(err, PRISM_EXIT_NO_NCCL,
                                   "%s is statically linked: the preload library cannot see its NCCL calls; link it dynamically",
                                   path)
                 : 0;
}
