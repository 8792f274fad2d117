/* limit.h - how much host memory the mover may pin. */
#ifndef PRISM_MOVER_LIMIT_H
#define PRISM_MOVER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* PRISM_HOST_POOL bytes if set, else 60 % of the smaller of the memory available and what the control group leaves;
 * divided by the movers of this node. On a virtual machine whose memory grows with use, what is available at the start
 * is too little: there PRISM_HOST_POOL has to say. */
uint64_t limit_pinned(unsigned movers);
/* PRISM_HOST_POOL is set: so much will be needed. */
bool limit_is_given(void);

#endif
