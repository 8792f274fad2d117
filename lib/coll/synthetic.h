/* synthetic.h - control mode (PRISM_PAYLOAD): which parts of operations are kept exactly, and what takes the place of the others.
 *
 * One rule for all who follow it: capture stores what is kept and nothing else, prismd delivers that, and the preload library and
 * the assistants make the rest on the device.
 */
#ifndef PRISM_COLL_SYNTHETIC_H
#define PRISM_COLL_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

/* Up to this many bytes every part is kept exactly: norms, losses, flags, counts. */
#define COLL_SYNTHETIC_KEEPS 4096u
/* Bytes of the pattern that are made by the host; the device doubles them. A multiple of the pattern's period. */
#define COLL_SYNTHETIC_BLOCK 65536u

/* Does control mode keep a part of so many bytes? Integers always: they steer control flow (routing counts, object sizes). */
bool coll_synthetic_keeps(int datatype, uint64_t bytes);
/* How many of them are kept: all or none. */
uint64_t coll_synthetic_kept(int datatype, uint64_t bytes);
/* Fill with values in [-1/32, 1/32] of the datatype, repeating every 256 elements: finite and not all equal. */
void coll_synthetic_fill(void *out, uint64_t bytes, int datatype);

#endif
