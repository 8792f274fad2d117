/* membership.h - the communicators of a rank on this node, by the rank's own numbers. */
#ifndef PRISM_PRISMD_MEMBERSHIP_H
#define PRISM_PRISMD_MEMBERSHIP_H

#include "prismd/daemon.h"

/* Membership by communicator number, growing the table. */
struct membership *rank_comm(struct rank *r, uint32_t comm);
/* Set size, rank, global of a membership. */
void rank_comm_made(struct rank *r, uint32_t comm, int32_t global, int32_t size, int32_t comm_rank);
void membership_clear(struct rank *r); /* frees the table */

#endif
