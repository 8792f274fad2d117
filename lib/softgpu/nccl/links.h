/* links.h - which links are busy: flows of all processes of this host, in a small file under sg_state_dir().
 *
 * A flow is the traffic of one communicator (owner) over one link from start to end, in model time. Ends are
 * known when a flow is entered, so a process that is killed leaves nothing to clean up. A file of before the
 * last boot is begun anew. Without a state folder nothing is shared and every link is idle.
 */
#ifndef SOFTGPU_NCCL_LINKS_H
#define SOFTGPU_NCCL_LINKS_H

#include "softgpu/nccl/model.h"

enum sgn_direction { SGN_EGRESS, SGN_INGRESS };

/* The name of a link: a device's within its node, or its (or with net_nic_shared its node's) network link. */
uint64_t sgn_link(struct sgn_place place, enum sgn_class class, enum sgn_direction direction);

/* Nobody else of this host reads or writes flows between lock and unlock. */
void sgn_links_lock(void);
void sgn_links_unlock(void);

/* Owners other than `owner` with a flow on link at time_ns. */
int sgn_links_others(uint64_t link, uint64_t owner, int64_t time_ns);
void sgn_links_add(uint64_t link, uint64_t owner, int64_t start_ns, int64_t end_ns);

#endif
