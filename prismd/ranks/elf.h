/* elf.h - can the preload library get into this program at all? */
#ifndef PRISM_PRISMD_ELF_H
#define PRISM_PRISMD_ELF_H

#include "common/error.h"

/* Error for a missing or non-executable file (PRISM_EXIT_USAGE) and for a statically linked ELF (PRISM_EXIT_NO_NCCL).
 * Scripts and what we cannot read are fine: the interpreter decides. */
int elf_check(const char *path, struct prism_error *err);

#endif
