/* graph.h - the execution graph: what every rank does on its streams and host threads, in issue order.
 *
 * 1. Timelines and nodes
 *
 * A rank has timelines: streams and host threads. Its nodes lie in one array in issue order; every node but SYNC lies
 * on a stream and was issued by a host thread. Node n (DESIGN: "the graph and its arithmetic"), with w its work:
 *
 *   issue(n)  = end of the host thread's node before n + host work(n)
 *   start(n)  = max( end(previous node of the stream) + device work(n), issue(n), end(dep(n)) )
 *   end(n)    = start(n)                                                   for RECORD, WAIT, JOIN
 *             = max over q in feeds(op, p) of start(n at q) + duration     for COMM
 *   SYNC (host only): end(n) = max( issue(n), end(dep(n)) ); the host thread goes on from there.
 *   All others let the host thread go on at issue(n): NCCL and CUDA calls do not block the host.
 *
 * Times are int64_t nanoseconds. Works are durations in nanoseconds as float (float keeps 7 digits).
 *
 * 2. Looping
 *
 * Ranks may be replayed beyond the recorded nodes: position v (counting on) stands for node
 *   v < loop_end ? v : loop_begin + (v - loop_begin) % (loop_end - loop_begin)
 * and `dep` is a distance back from v, so it stays right when looped.
 */
#ifndef PRISM_GRAPH_GRAPH_H
#define PRISM_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/error.h"

/* Limits, so that a damaged file cannot ask for absurd memory. */
#define GRAPH_STREAMS_MAX 65536u
#define GRAPH_COMMS_MAX   1048576u
#define GRAPH_WORK_MAX    1e13f /* nanoseconds; works are between 0 and that */

enum graph_kind {
    GRAPH_COMM = 1, /* a group of NCCL operations on one communicator: one gate */
    GRAPH_RECORD,   /* event record (also the point a host synchronisation waits for) */
    GRAPH_WAIT,     /* stream waits for an event: dep is its RECORD */
    GRAPH_SYNC,     /* host waits: dep is the RECORD it waits for */
    GRAPH_JOIN,     /* put on each stream after a SYNC: kernels that follow were launched after it */
};

struct graph_part {
    uint8_t op;       /* enum prism_op, coll/types.h */
    uint8_t datatype; /* ncclDataType_t */
    uint8_t redop;
    uint8_t unused;
    int32_t peer; /* rank in the communicator: destination, source or root; -1 none */
    uint64_t count;
};

struct graph_node {
    uint8_t kind;
    uint8_t unused;
    uint16_t host;
    uint32_t stream;
    uint32_t dep;     /* distance back to the node waited for; 0 = none */
    uint32_t comm;    /* COMM: the rank's communicator number */
    uint32_t ordinal; /* COMM: counts the groups of this communicator at this rank */
    uint32_t first_part, nparts;
};

struct graph_member {
    int32_t global; /* index into graph.comms; -1 = no communicator (NCCL_SPLIT_NOCOLOR) */
    int32_t rank;   /* this rank's number in it */
};

/* Ranks of equal structure have one array of nodes between them, ranks that also move the same amounts to the same peers
 * one array of parts: 8,192 ranks are then as large as their few dozen different ones. References are counted, not
 * atomically: make and free graphs in one thread; any number may read. */
struct graph_shared;

struct graph_rank {
    struct graph_node *nodes; /* owned, or in nodes_shared: then read only (graph_rank_own) */
    struct graph_part *parts; /* owned, or in parts_shared: the same */
    struct graph_shared *nodes_shared, *parts_shared; /* NULL = owned */
    struct graph_member *comms; /* owned; by the rank's communicator number */
    uint32_t nnodes, nparts, ncomms;
    uint32_t nstreams, nhosts;
    uint32_t *iterations; /* owned; niterations + 1 node indices: iteration i is [iterations[i], iterations[i+1]) */
    uint32_t niterations; /* 0 until graph_find_iterations */
    uint32_t klass;       /* ranks of equal structure have equal klass (graph_find_classes) */
    /* Calibrated works per node in nanoseconds, owned; NULL = not measured: the class representative's count. */
    float *device_work, *host_work;
};

struct graph_comm {
    uint32_t size;
    int32_t *ranks; /* owned; world rank of each member */
};

struct graph {
    uint32_t world;
    uint32_t gpus_per_node;
    struct graph_rank *ranks; /* world of them */
    struct graph_comm *comms;
    uint32_t ncomms;
    uint32_t nclasses;
};

struct graph *graph_create(uint32_t world, uint32_t gpus_per_node);
void graph_destroy(struct graph *g); /* NULL is fine */

/* Let ranks with equal nodes, or equal parts, share them. Changes no content. graph_read does it by itself. */
void graph_share(struct graph *g);
/* Copies of what the rank shares, for it alone: before nodes or parts are written to. graph_add_node does it by itself. */
void graph_rank_own(struct graph_rank *r);
/* Free what the rank owns and give back what it shares; all zero afterwards. */
void graph_rank_clear(struct graph_rank *r);

/* Building (capture). Communicators and nodes are copied; nodes must come in issue order. A node may name a
 * communicator that becomes a member later (graph_set_member), but before graph_check. -1: out of range (rank, kind,
 * dep beyond the first node, a COMM node without parts or parts of another kind, works measured already). */
int graph_add_comm(struct graph *g, const int32_t *ranks, uint32_t size);        /* returns the global index */
int graph_set_member(struct graph *g, uint32_t rank, uint32_t comm, int32_t global, int32_t comm_rank);
/* first_part and nparts of node are ignored; parts are appended. */
int graph_add_node(struct graph *g, uint32_t rank, const struct graph_node *node, const struct graph_part *parts,
                   uint32_t nparts);

/* Cross-check what capture recorded: every collective has all its members with equal op, datatype, redop, root (counts
 * too where NCCL asks for it), every send its receive. Error text names rank, communicator and op. */
int graph_check(const struct graph *g, struct prism_error *err);
/* The same for a capture that was ended from outside: operations that some ranks did not get to are no error. */
int graph_check_truncated(const struct graph *g, struct prism_error *err);

/* Find the training iterations of every rank as the smallest period of its COMM nodes' structure (op, communicator,
 * datatype, redop, relative peer) with at least two periods one after the other, where these cover most of its nodes.
 * Layers of an iteration may look alike, so the period is looked for with more in view first: between which COMM nodes
 * the host has waited for the device, else where another stream has waited for one, else the counts; the structure alone
 * comes last (data may decide all of these). Nodes before are set-up, those after the last whole period teardown. All ranks get the same number of
 * iterations: the smallest found. Where a rank sees a smaller period than others (micro-batches look alike to it), several make
 * one iteration: as many as its collectives on the communicators that they share tell.
 * An iteration ends right after its last COMM node and begins right after the last node of the one before (iteration 0:
 * right after the last COMM node of the set-up), so that iterations cover all nodes between set-up and teardown.
 * Without a period: one iteration that is everything. Ranks without COMM nodes: all nodes are in iteration 0.
 * Where the program itself names them: marks.h, afterwards.
 * -1 with err: the graph is not consistent. */
int graph_find_iterations(struct graph *g, struct prism_error *err);

/* Capture that is to end early: how many iterations the rank's first `nodes` nodes hold so far, as graph_find_iterations
 * would see them: complete periods of COMM nodes up to the last one, at least two, else 0. Within the first iteration its
 * micro-batches or layers look like iterations; so periods count only where the host has waited for the device (a SYNC,
 * as for a loss), and sixteen for one while the host has waited in half of them at most (the buckets of a backward pass), or the
 * largest communicator that the rank has made does not occur in them (an iteration has an all-reduce of the world or of
 * its replicas; layers and micro-batches work in small groups). The rank
 * must be a member of the communicators that its nodes name. Costs time in the rank's nodes. */
uint32_t graph_count_iterations(const struct graph *g, uint32_t rank, uint32_t nodes);
/* Keep set-up and the first n iterations (graph_find_iterations has been called), of every rank the same: what was
 * recorded behind them is an unfinished iteration, or teardown. -1, nothing changed: there are fewer, or n is 0. */
int graph_truncate(struct graph *g, uint32_t n);
/* Some rank communicates behind its last iteration. */
bool graph_has_teardown(const struct graph *g);

/* Give ranks of equal structure (nodes, relative peers, whether they are root, sizes and order of communicators; not
 * counts, not which ranks, not the order of sends and receives in a group) the same klass 0..nclasses-1, numbered by
 * their lowest rank. The graph must be consistent (graph_check). */
void graph_find_classes(struct graph *g);
/* First rank of class with works measured (device_work != NULL), else -1. */
int32_t graph_representative(const struct graph *g, uint32_t klass);

/* Works of a node of a rank: its own if measured, else the representative's, else 0. */
float graph_device_work(const struct graph *g, uint32_t rank, uint32_t node);
float graph_host_work(const struct graph *g, uint32_t rank, uint32_t node);
/* A work as the arithmetic takes it, in whole nanoseconds. (Rounded as a float it would be one off from 8 ms on.) */
static inline int64_t graph_whole_ns(float work)
{
    return (int64_t)((double)work + 0.5);
}
/* Arrays of nnodes floats set to zero if not there yet. */
void graph_alloc_works(struct graph *g, uint32_t rank);

/* On disk: docs/formats/prismtrace.md; graph_read also reads version 1. One rank at a time, salvage, merging: file.h. */
void graph_write(const struct graph *g, struct bytes *out); /* out is cleared first */
struct graph *graph_read(const void *data, size_t len, struct prism_error *err);

#endif
