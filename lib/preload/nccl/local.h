/* local.h - communicators of one rank: NCCL copies within the device, so does Prism. No gate, no node. */
#ifndef PRISM_PRELOAD_LOCAL_H
#define PRISM_PRELOAD_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/nccl/group.h"

/* True if the group was done here. False: it needs a gate (more ranks, or a PreMulSum, whose factor must be applied).
 * session_lock held. */
bool local_issue(struct comm *c, const struct operation *operations, uint32_t n);

#endif
