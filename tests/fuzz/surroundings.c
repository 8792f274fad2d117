/* surroundings.c - what comes from around a run: a program's command line (torchrun), its ELF file, its keys in the store
 * (Gloo), a PMIx client's first bytes, another node's greeting, names of nodes. The first byte says which; the rest is
 * the text or the file. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/names.h"
#include "preload/launcher.h"
#include "prismd/capture/gloo.h"
#include "prismd/link/greeting.h"
#include "prismd/pmix/pmix_door.h"
#include "prismd/ranks/elf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/text.h"
#include "tests/fuzz/path.h"

const uint32_t fuzz_unit_runs = 100000;

enum kind { LAUNCHER, ELF, GLOO, DOOR, NAMES, HELLO, KINDS };

#define ARGUMENTS 32

/* One argument a line. What would be run are arguments of the line, and python's own. */
static void launcher(char *text)
{
    char *argv[ARGUMENTS + 1] = {0}, *save = NULL;
    struct launcher l = {0};
    int n = 0;
    for (char *at = strtok_r(text, "\n", &save); at && n < ARGUMENTS; at = strtok_r(NULL, "\n", &save))
        argv[n++] = at;
    if (!launcher_parse(argv, &l))
        return;
    int k = 0;
    while (l.command[k])
        k++;
    if (!k || k > n + 1 || l.command[k - 1] != argv[n - 1])
        abort();
    free(l.command);
}

static void elf(const uint8_t *data, size_t len)
{
    struct prism_error err = {0};
    const char *path = fuzz_path(data, len);
    chmod(path, 0700);
    int rc = elf_check(path, &err);
    if (!rc != !err.code || (rc && (len < 4 || memcmp(data, "\177ELF", 4))))
        abort();
}

static void gloo(const uint8_t *data, size_t len)
{
    char name[GLOO_NAME_MAX];
    memset(name, 'x', sizeof name);
    if (gloo_names_group(data, len, name) && (!memchr(name, 0, sizeof name) || !*name || !memmem(data, len, "//cpu//", 7)))
        abort();
}

/* The rank that is told from the first bytes is told from more of them, too. */
static void door(const uint8_t *data, size_t len)
{
    int64_t all = pmix_door_rank(data, len, "prism-1");
    if (all > UINT32_MAX || all < -1)
        abort();
    for (size_t n = len > 64 ? len - 64 : 0; n < len; n++) {
        int64_t some = pmix_door_rank(data, n, "prism-1");
        if (some >= 0 && some != all)
            abort();
    }
}

/* A node that is found has that name. */
static void names(const char *text)
{
    char base[NAMES_BASE_MAX], name[NAMES_NODE_MAX], list[NAMES_LIST_MAX];
    names_base(text, base);
    for (uint32_t nodes = 1; nodes < 2000; nodes = nodes * 9 + 1) {
        names_node(base, nodes, nodes / 2, name);
        names_list(base, nodes, nodes, list);
        if (names_find(base, nodes, name) != nodes / 2)
            abort();
        uint32_t found = names_find(base, nodes, text);
        if (found != UINT32_MAX && found >= nodes)
            abort();
    }
}

static bool same(const char *a, const char *b, size_t n)
{
    return strnlen(a, n - 1) == strnlen(b, n - 1) && !memcmp(a, b, strnlen(a, n - 1));
}

/* The input is what differs from a greeting that is right, so none at all is of us. */
static void hello(const uint8_t *data, size_t len)
{
    struct greeting mine = {.magic = GREETING_MAGIC, .version = 2, .node = 0, .nodes = 3, .host = "h", .name = "n", .step = "12.0",
                            .release = "0.1.0"}, theirs;
    memset(mine.key, 'k', sizeof mine.key);
    theirs = mine;
    for (size_t i = 0; i < len && i < sizeof theirs; i++)
        ((uint8_t *)&theirs)[i] ^= data[i];
    struct greeting sent = theirs;
    enum greeting_of whose = greeting_check(&mine, &theirs);
    bool key = !memcmp(sent.key, mine.key, sizeof mine.key) && sent.magic == mine.magic;
    bool build = sent.version == mine.version && same(sent.release, mine.release, sizeof sent.release);
    bool ours = sent.nodes == 3 && sent.node < 3 && same(sent.step, mine.step, sizeof sent.step) &&
                sent.credential_len < sizeof sent.credential;
    if (whose != (!key ? GREETING_STRANGER : !build ? GREETING_ANOTHER_BUILD : ours ? GREETING_OURS : GREETING_STRANGER))
        abort();
    if (strlen(theirs.host) >= sizeof theirs.host || strlen(theirs.name) >= sizeof theirs.name ||
        strlen(theirs.release) >= sizeof theirs.release || strlen(theirs.credential) >= sizeof theirs.credential)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    char *text = fuzz_text(data + 1, len - 1);
    switch ((enum kind)(*data % KINDS)) {
    case LAUNCHER: launcher(text); break;
    case ELF: elf(data + 1, len - 1); break;
    case GLOO: gloo(data + 1, len - 1); break;
    case DOOR: door(data + 1, len - 1); break;
    case NAMES: names(text); break;
    case HELLO: hello(data + 1, len - 1); break;
    case KINDS: break;
    }
    free(text);
    return 0;
}
