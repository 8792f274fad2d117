/* beginning.h - when the replay of calibration and emulation begins.
 *
 * It begins when every live rank stands at its first gate, at the moment when the last of them came there: their start-up is not
 * emulated. A live rank may first need what another one does behind its own gates: PyTorch makes a communicator when it is first
 * used, and its first member publishes the id then. So it also begins when all that are missing have waited for
 * BEGINNING_PATIENCE_NS, in the store or for a communicator's other members; the first iteration, which is no measurement, then holds the
 * start of those.
 */
#ifndef PRISM_PRISMD_BEGINNING_H
#define PRISM_PRISMD_BEGINNING_H

#include "prismd/daemon.h"

#define BEGINNING_PATIENCE_NS (2 * NSEC_PER_SEC)

/* live: by world rank, which run in this phase, n of them; borrowed until beginning_end. begin is called once. */
void beginning_begin(struct daemon *d, const uint8_t *live, uint32_t n, void (*begin)(struct daemon *d, int64_t t0_ns));
void beginning_end(void);
/* A live rank of any node came to a gate (which the graph has been told). */
void beginning_arrived(struct daemon *d, uint32_t rank, int64_t start_ns);
/* A rank that ends without a gate must not hold up the others; that it left is for the graph to show. */
void beginning_left(struct daemon *d, uint32_t rank);
void beginning_tick(struct daemon *d); /* often, with the lock held */

#endif
