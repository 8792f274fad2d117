/* duration.h - how long operations take on this machine's network, and who waits for whom.
 *
 * 1. The model
 *
 * A link class (within a node, between nodes) has three numbers: launch, paid once an operation; step, paid every time
 * a chunk passes from rank to rank; bandwidth, bytes a second that one rank moves in each direction while all do (Hockney's
 * alpha-beta model with a start-up; R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
 * Operations in MPICH", 2005). n ranks, S = count * size of the datatype, count as in the NCCL call:
 *
 *     time = launch + steps * step + wire / bandwidth
 *
 *     operation        steps                      wire              source
 *     AllReduce ring   2 (n-1)                    2 (n-1)/n S       P. Patarasuk, X. Yuan, 2009
 *     AllReduce tree   2 ceil(log2 n)             2 S               double binary trees: P. Sanders, J. Speck, J. Traeff, 2009
 *     AllGather, ReduceScatter ring  n-1          (n-1) S           (S: one rank's part)
 *     Broadcast chain  place of p behind the root S                 pipelined; the root itself counts one step
 *     Broadcast tree   depth of p                 2 S
 *     Reduce           n-1 (tree: ceil(log2 n)) at the root, 1 elsewhere; wire as for broadcast
 *     AlltoAll         1                          (n-1) S           all flows at once
 *     Gather, Scatter  1                          (n-1) S           through the root's link
 *     Send, Recv       1                          S
 *
 * Where an operation may run as ring or tree, the faster one is taken, as NCCL does (tuning.cc). Which ones may
 * (tree_allreduce, tree_rooted) is found by the fit.
 *
 * A communicator over several nodes has the bandwidth of the class between nodes. Of its ring's steps, the share
 * nodes/n crosses nodes (close to tuning.cc's nInterSteps) and the rest does not; or, if the fit explains the measurements better
 * (lockstep), every step takes as long as one between nodes. AlltoAll and grouped sends use both classes side by
 * side: the slower one counts.
 *
 * 2. Measurements beside the model
 *
 * For a group that was measured itself (same operation, ranks and nodes) and that the model misses by more than 2 % (root
 * mean square of the relative errors), the ratio measured/model, linear in log(bytes), multiplies the model.
 *
 * All times are seconds. Nothing here allocates but load, fit and copy; durations may be asked by several threads.
 */
#ifndef PRISM_COLL_DURATION_H
#define PRISM_COLL_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"
#include "common/error.h"

enum coll_link { COLL_LINK_INTRA, COLL_LINK_INTER, COLL_LINKS };

struct coll_link_profile {
    double launch_s, step_s;
    double bandwidth_Bps;
    uint64_t eager_bytes; /* sends up to this end without their receiver */
    bool measured;        /* false: a default */
};

/* One measurement: from the last start to the end (of the last receiver, for rooted operations). */
struct coll_point {
    int op;          /* enum prism_op */
    int size, nodes; /* ranks of the group and nodes they sit on */
    double bytes;    /* count * size of the datatype, as in the NCCL call */
    double seconds;
};

struct coll_curve; /* ratios of a group that was measured */

struct coll_network {
    struct coll_link_profile link[COLL_LINKS];
    bool tree_allreduce, tree_rooted, lockstep;
    double fit_error;          /* root mean square of the relative errors over all points; 0 without points */
    struct coll_point *points; /* owned */
    size_t npoints;
    struct coll_curve *curves; /* owned */
    size_t ncurves;
};

/* Built-in numbers, both estimates: H200s over NVLink within a node, 400 Gb/s by name plate between nodes; measured = false. */
void coll_network_default(struct coll_network *net);
/* Least squares of the relative errors, no number below zero; a class without points keeps its default. points are copied,
 * eager_bytes are the caller's to set. -1 with err: points that no network makes (counts, times), or too few. */
int coll_network_fit(struct coll_network *net, const struct coll_point *points, size_t n,
                     struct prism_error *err);
/* docs/formats/network-profile.md. load: fills net (cleared on failure); the numbers in the file rule, not a new fit. */
int coll_network_load(struct coll_network *net, const char *path, struct prism_error *err);
int coll_network_parse(struct coll_network *net, const char *text, size_t len, const char *name,
                       struct prism_error *err);
int coll_network_save(const struct coll_network *net, const char *path, struct prism_error *err);
void coll_network_clear(struct coll_network *net); /* free what it owns */

/* 3. Asking */

struct coll_shape {
    int size;               /* ranks of the communicator */
    int nodes;              /* nodes they sit on; ranks in equal blocks where node_of is NULL */
    const int32_t *node_of; /* size node numbers by rank, or NULL */
};

/* Seconds from the last start that participant p depends on (coll_feeds) to p's end. root: rooted operations' root,
 * the other side of SEND and RECV. bytes as in struct coll_point. 0 for one rank alone, or an unknown operation. */
double coll_duration(const struct coll_network *net, int op, uint64_t bytes, const struct coll_shape *shape,
                     int root, int p);

struct coll_part {
    int op;
    int peer; /* as root above */
    uint64_t bytes;
};

/* A group of operations that p issued at once on one communicator: its collectives one behind the other (launched
 * once), its sends and receives side by side: per link class, the larger of what p sends and what p receives. */
double coll_group_duration(const struct coll_network *net, const struct coll_shape *shape, int p,
                           const struct coll_part *parts, size_t n);

/* Does a send of that many bytes from p to q end without its receiver? */
bool coll_is_eager(const struct coll_network *net, const struct coll_shape *shape, int p, int q,
                   uint64_t bytes);

/* Does participant p's end depend on participant q's start? Everyone's own start counts. eager: coll_is_eager of a SEND. */
bool coll_feeds(int op, int root, int p, int q, bool eager);

#endif
