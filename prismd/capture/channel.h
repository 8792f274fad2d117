/* channel.h - point-to-point in capture: sends wait for their receive, receives for their send.
 *
 * What is sent to a rank of this node stays in the sender's region until its group is about to open: in an all-to-all every receive has
 * come by then, and nothing is copied but from region to region. What is left then is copied, so no group waits for its sends.
 */
#ifndef PRISM_PRISMD_CHANNEL_H
#define PRISM_PRISMD_CHANNEL_H

#include "prismd/daemon.h"

/* Called when a receive has got its bytes (already in the region). */
typedef void (*channel_delivered)(struct daemon *d, struct group *group);

void channel_begin(channel_delivered delivered);
void channel_end(void);
/* Part of an arrived group. */
void channel_send(struct daemon *d, struct group *group, uint32_t part);
void channel_recv(struct daemon *d, struct group *group, uint32_t part);
/* All that the group receives has come: its region is the rank's again when this returns. */
void channel_settle(struct daemon *d, struct group *group);
/* A rank has ended (all it sent has come, links keep their order): receives that wait for it, now or later, fail the run. */
void channel_rank_left(struct daemon *d, uint32_t rank);

#endif
