/* groups.h - the communicators of a rank.
 *
 * A pipeline edge (between two neighbouring stages) has one communicator a direction, because operations of
 * one communicator run one after the other and a receive is posted long before its data exists. Edges
 * alternate between an even and an odd kind, so that a rank is in at most one group of each kind.
 */
#ifndef MOETRAIN_GROUPS_H
#define MOETRAIN_GROUPS_H

#include <nccl.h>
#include <stdbool.h>

#include "bootstrap.h"
#include "kernels.h"
#include "layout.h"

enum group_kind {
    GROUP_WORLD,
    GROUP_TENSOR,
    GROUP_DATA,
    GROUP_EXPERT,
    GROUP_EXPERT_DATA,
    GROUP_FORWARD_EVEN,
    GROUP_BACKWARD_EVEN,
    GROUP_FORWARD_ODD,
    GROUP_BACKWARD_ODD,
    GROUP_KINDS
};

struct group {
    int size, rank,
        first;       /* first: the world rank of its rank 0; size 0: this rank is in no group of the kind */
    ncclComm_t comm; /* NULL when size < 2: nothing is sent then */
};

struct groups {
    struct group of[GROUP_KINDS];
    struct group *waiting; /* extra groups of the whole world, for --wait-streams */
    int waiting_count;
    /* neighbours in the pipeline; rank 0 of an edge is the lower stage. Size 0 at the ends. */
    struct group *forward_previous, *forward_next, *backward_previous, *backward_next;
};

/* Create all communicators (collective). */
void groups_create(struct groups *groups, const struct layout *layout, struct bootstrap *bootstrap,
                   bool use_split, int waiting);

/* Start the watchdog: a thread that looks for asynchronous errors every so many seconds and ends the process with a
 * message. Nothing happens with 0 seconds, or alone. */
void groups_watch(struct groups *groups, int seconds);

/* Stop the watchdog, destroy the communicators (collective). */
void groups_destroy(struct groups *groups);

/* Dies if a communicator has an asynchronous error. */
void groups_check(const struct groups *groups);

/* In place; nothing to do in a group of one. */
void group_sum(const struct group *group, real *values, size_t count, cudaStream_t stream);
void group_sum_doubles(const struct group *group, double *values, size_t count, cudaStream_t stream);
void group_max(const struct group *group, real *values, size_t count, cudaStream_t stream);

#ifdef MOETRAIN_DOUBLE
#define NCCL_REAL ncclFloat64
#else
#define NCCL_REAL ncclFloat32
#endif

#endif
