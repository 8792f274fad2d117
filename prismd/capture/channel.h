/* channel.h - point-to-point in capture: sends wait in memory for their receive, receives for their send. */
#ifndef PRISM_PRISMD_CHANNEL_H
#define PRISM_PRISMD_CHANNEL_H

#include "prismd/daemon.h"

/* Called when a receive has got its bytes (already in the region). */
typedef void (*channel_delivered)(struct daemon *d, struct group *group);

void channel_begin(channel_delivered delivered);
void channel_end(void);
/* Part of an arrived group. A send is finished when this returns (its bytes were taken). */
void channel_send(struct daemon *d, struct group *group, uint32_t part);
void channel_recv(struct daemon *d, struct group *group, uint32_t part);
/* A rank has ended (all it sent has come, links keep their order): receives that wait for it, now or later, fail the run. */
void channel_rank_left(struct daemon *d, uint32_t rank);

#endif
