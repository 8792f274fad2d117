/* names.h - names of logical nodes in the program's process (names.c). */
#ifndef PRISM_PRELOAD_NAMES_H
#define PRISM_PRELOAD_NAMES_H

#include <stddef.h>

/* Where a connection to `name` goes: an address or the machine's own name in real for a logical node, else `name` itself. */
const char *names_real(const char *name, char *real, size_t size);

#endif
