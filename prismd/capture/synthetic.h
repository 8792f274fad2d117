/* synthetic.h - what takes the place of large floating-point payloads in control mode. */
#ifndef PRISM_PRISMD_SYNTHETIC_H
#define PRISM_PRISMD_SYNTHETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Up to this many bytes every part is kept exactly: norms, losses, flags, counts. */
#define SYNTHETIC_KEEP_BYTES 4096

/* Would control mode keep the part's bytes? Integers always: they steer control flow (routing counts, object sizes). */
bool synthetic_keeps(int datatype, uint64_t bytes);
/* Fill with values in [-1/32, 1/32] of the datatype, repeating every 256 elements: finite, not all equal, and compressible to almost
 * nothing. */
void synthetic_fill(void *out, uint64_t bytes, int datatype);

#endif
