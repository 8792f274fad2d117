/* eval_private.h - inside of graph_eval (eval.c, eval_lines.c, eval_setup.c, eval_threads.c).
 *
 * Lines. Every timeline of a rank is a line with a cursor n, the next node to evaluate (NONE: it ended, which counts as being
 * past everything). Streams are pushed, host threads are pulled, as in run_private.h. A line is in one place at a time: on
 * a ready stack or running, on the list of the line it waits for, at its group, idle, or ended.
 *
 * Channels. Where ranks meet: one for the collectives of a communicator, one for the messages of a pair in one direction.
 * Its operations are numbered at both ends by the order of issue, so number s has its place in a ring. A channel whose
 * members are on several threads has a lock.
 *
 * Memory. What changes at every node lies in the order in which ranks were dealt, and threads share no cache line of it:
 * ranks of neighbouring numbers are often on different threads, and these are often at the same place of the program.
 */
#ifndef PRISM_GRAPH_EVAL_PRIVATE_H
#define PRISM_GRAPH_EVAL_PRIVATE_H

#include <pthread.h>

#include "graph/eval.h"
#include "graph/feeds.h"

#define NONE         UINT32_MAX
#define NOT_COMM     UINT32_MAX /* eval_node.op: RECORD, WAIT, JOIN */
#define IS_SYNC      (UINT32_MAX - 1)
#define THREADS_MAX  16u
#define LOCKS        256u
#define CACHE_LINE   64u  /* bytes */
#define FAR          256u /* nodes; a stream that far ahead of its host lets the others go first */

enum eval_state { EVAL_IDLE, EVAL_READY, EVAL_AT_LINE, EVAL_AT_COMM, EVAL_ENDED };

struct eval_node {
    uint32_t next; /* of the same stream, NONE */
    uint32_t dep;  /* distance, 0 = none */
    uint32_t op;   /* number of the group, or NOT_COMM, IS_SYNC */
    uint16_t stream, host;
    /* A group of one operation, as eval_part has it; counter NONE: several, or one with a root. */
    uint32_t counter, sequence;
    uint32_t feeds, part;
};

struct eval_op {
    uint32_t first_part, nparts, comm;
};

struct eval_part {
    uint32_t counter;  /* which of the rank's channels */
    uint32_t sequence; /* its number there */
    int32_t root;
    uint32_t feeds;    /* enum graph_feeds */
};

struct eval_counter { /* what a channel is to ranks of a shape */
    uint32_t comm;
    int32_t distance; /* to the peer around the communicator */
    uint32_t feeds;   /* SEND, RECV; ALL stands for collectives */
    uint32_t n;       /* operations */
};

/* Tables of ranks with equal nodes, operations and distances. */
struct eval_shape {
    struct eval_node *nodes;
    uint32_t *host_next; /* NULL: one host thread */
    struct eval_op *ops;
    struct eval_part *parts;
    struct eval_counter *counters;
    uint32_t *first;     /* by line: its first node, NONE */
    uint32_t *most_parts; /* by stream: of its largest group */
    uint32_t nnodes, nops, nparts, ncounters, nstreams, nhosts, max_dep;
};

/* Ranks with one array of parts, and groups of equal contents in it: their durations are asked for once a rank. */
struct eval_column {
    uint32_t *signature; /* by op; NULL: every group is asked for */
    uint32_t nsignatures;
};

struct eval_slot {
    int64_t value; /* latest start that feeds, or the first side's */
    uint32_t sequence, count, waiters;
    uint32_t fed;
};

struct eval_channel { /* a cache line */
    struct eval_slot *ring;
    uint32_t mask; /* of the ring */
    uint32_t members : 31;
    uint32_t crosses : 1; /* threads */
    struct eval_slot own[2]; /* the ring until it has to grow */
};

struct eval_waiter {
    uint32_t next, line;
};

struct eval_line {
    int64_t end_ns; /* of its last node; host: when it goes on */
    int64_t start_ns, max_ns; /* of the group at hand */
    uint32_t pending;
    uint32_t n, rank;
    uint32_t next, waiters;
    uint32_t wait_for;
    uint32_t slot, slot_end;
    uint32_t waiter; /* first of its places as a waiter */
    uint8_t state, is_host;
};

struct eval_rank { /* 128 bytes, what every node needs in the first half */
    const struct eval_node *nodes;
    int64_t *time; /* ring by node: the issue until it is evaluated, then the end */
    const float *device_work, *host_work;
    uint32_t mask, floor, max_dep, nnodes;
    uint32_t first_line, first_host;
    uint32_t *channels; /* by counter */

    int64_t *durations; /* by signature, INT64_MIN = not asked yet */
    const uint32_t *signature;
    struct graph_times *times; /* keep_times, or NULL */
    int64_t *grown;       /* the ring of times, if it is this rank's alone */
    int64_t *slots;       /* ends: set-up, iterations, teardown */
    const struct eval_shape *shape;
    const struct graph_rank *recorded;
    uint32_t open_streams, thread;
};

struct eval_message {
    int64_t value;
    uint32_t line;
};

struct eval_box {
    struct eval_message *list;
    uint32_t n, cap;
};

struct eval_thread {
    _Alignas(CACHE_LINE) struct graph_eval *e;
    pthread_t thread;
    pthread_cond_t wake;
    uint32_t number;
    uint32_t near, far; /* ready stacks */
    uint64_t nodes;
    uint64_t *log; /* keep_slack: starts of groups and ends of nodes in the order of evaluation */
    size_t nlog;
    struct eval_box in; /* under the lock of e */
    struct eval_box taken, out[THREADS_MAX];
};

struct graph_eval {
    const struct graph *graph;
    struct graph_eval_ops ops;
    struct eval_rank *ranks;
    struct eval_line *lines;
    uint32_t nlines;
    struct eval_waiter *waiters;
    struct eval_channel *channels;
    uint32_t *channel_ops; /* by channel: its operations */
    uint32_t nchannels;
    struct eval_shape **shapes;
    uint32_t nshapes;
    struct eval_column *columns;
    uint32_t ncolumns;
    uint32_t *order; /* ranks, those that talk most together next to each other */
    struct eval_thread threads[THREADS_MAX];
    uint32_t nthreads;
    pthread_mutex_t lock, channel_locks[LOCKS];
    uint32_t idle;
    bool done;
    void *memory[8]; /* arrays that ranks point into */
};

/* Entries of the log. */
static inline uint64_t eval_event(uint32_t rank, uint32_t node, bool is_end)
{
    return (uint64_t)rank << 33 | (uint64_t)node << 1 | is_end;
}

static inline void eval_log(struct eval_thread *t, uint32_t rank, uint32_t node, bool is_end)
{
    if (t->log)
        t->log[t->nlog++] = eval_event(rank, node, is_end);
}

/* Zeros on the borders of cache lines. */
void *eval_allocate(size_t n, size_t size);

/* In this order. eval_setup.c: what ranks share; eval_deal.c: threads and order; eval_state.c: what a rank has of its own. */
void eval_setup(struct graph_eval *e);
void eval_deal(struct graph_eval *e);
void eval_state(struct graph_eval *e, const struct graph_eval_options *options);
void eval_teardown(struct graph_eval *e);
uint32_t eval_slot_of(const struct graph_rank *r, uint32_t n, uint32_t *end);

/* eval_lines.c: as far as the thread's lines can go. */
void eval_begin(struct eval_thread *t, int64_t t0_ns);
void eval_drain(struct eval_thread *t);
int64_t eval_duration(struct graph_eval *e, struct eval_rank *r, uint32_t op);
void eval_feed(struct eval_thread *t, uint32_t line, int64_t value);

/* eval_threads.c */
void eval_post(struct eval_thread *t, uint32_t to, uint32_t line, int64_t value);
void eval_run(struct graph_eval *e, int64_t t0_ns);

#endif
