/* model.h - how long communication takes on the software GPUs: numbers of the network profile and the
 * formulas.
 *
 * Every operation costs  launch + steps * latency + bytes / bandwidth, latency and bandwidth those of the
 * slowest link class in it, times jitter, times time_scale. n ranks, S bytes (count * size of the datatype),
 * ring in the order of places (node, index):
 *
 *     AllReduce               ring 2(n-1) steps of S/n  or  double binary tree 2 ceil(log2 n) steps, 2 S in
 * all; the faster one AllGather, ReduceScatter  ring, n-1 steps of S (S: one rank's part) Broadcast, Reduce
 * chain of n-1 steps, S  or  tree of ceil(log2 n) steps, 2 S; the faster one. A broadcast reaches the rank at
 * depth d after d steps AlltoAll, Gather, Scatter, grouped Send and Recv   all flows at once, one latency; a
 * rank's bytes in one direction and one link class share its link
 *
 * Contention: bytes / bandwidth is multiplied by 1 + the other communicators' flows on the busiest link
 * (links.h).
 */
#ifndef SOFTGPU_NCCL_MODEL_H
#define SOFTGPU_NCCL_MODEL_H

#include "softgpu/nccl/wire.h"

enum sgn_class { SGN_SELF, SGN_INTRA, SGN_INTER, SGN_CLASSES };

struct sgn_model {
    double launch;                 /* seconds, scaled, as all times here */
    double latency[SGN_CLASSES];   /* seconds a step */
    double bandwidth[SGN_CLASSES]; /* bytes a second */
    uint64_t eager_bytes;          /* sends up to this end without their receiver */
    double jitter;                 /* times the spread of the device profile; 0: none */
    bool nic_shared;               /* one network link a node; else one a device */
    bool ordered;                  /* operations of one communicator run one after the other, as in NCCL */
};

const struct sgn_model *sgn_model(void); /* read at the first call */

enum sgn_class sgn_link_class(struct sgn_place a, struct sgn_place b);

/* The places of a communicator in the order of its ring. */
struct sgn_ring {
    int ranks;
    const struct sgn_place *places; /* by rank */
    int *order;                     /* ring position to rank */
    int *position;                  /* rank to ring position */
    enum sgn_class slowest;         /* link class in it */
};

/* places is borrowed. 0, or -1 without memory. */
int sgn_ring_init(struct sgn_ring *ring, int ranks, const struct sgn_place *places);
void sgn_ring_free(struct sgn_ring *ring);

/* Seconds (before jitter) from the last start that rank depends on to its end. share[class] >= 1: flows on
 * the busiest link. For Send and Recv use sgn_model_flow. */
double sgn_model_seconds(const struct sgn_ring *ring, const struct sgn_task *task, int rank,
                         const double share[SGN_CLASSES]);
/* Seconds of that during which the links are busy: what an operation of the same group right behind it waits
 * for. */
double sgn_model_busy(const struct sgn_ring *ring, const struct sgn_task *task,
                      const double share[SGN_CLASSES]);
/* Seconds of a flow over a link that carries bytes in all. */
double sgn_model_flow(enum sgn_class link, uint64_t bytes, double share);

/* Nanoseconds times the jitter of operation number of the communicator with this seed. */
int64_t sgn_model_ns(double seconds, uint64_t seed, uint64_t number);

/* A 64-bit mixing function for seeds. */
uint64_t sgn_mix(uint64_t a, uint64_t b);

#endif
