/* collective.h - collectives in capture: all members' inputs come to the operation's home, outputs go back. */
#ifndef PRISM_PRISMD_COLLECTIVE_H
#define PRISM_PRISMD_COLLECTIVE_H

#include "prismd/daemon.h"

struct payload_writer;

/* Called when a part of a local group has its output in the region (or has none). */
typedef void (*collective_served)(struct daemon *d, struct group *group);

void collective_begin(collective_served served, struct payload_writer *payloads);
void collective_end(void);
/* Part of an arrived group. */
void collective_arrive(struct daemon *d, struct group *group, uint32_t part);
/* A rank has ended: operations that wait for it, now or later, can never end and fail the run. */
void collective_rank_left(struct daemon *d, uint32_t rank);

#endif
