/* run_private.h - inside of graph_run: lines, positions, groups in flight, the table of open operations.
 *
 * Lines. Every timeline (stream or host thread) of a virtual rank is a line with a cursor: the next node n
 * and the number k of extra loops made, which is position n + k * len (graph.h section 2; k stays at its last
 * value in the teardown). A position has been evaluated when its line's cursor is past it; no other flag is
 * kept. Streams are pushed: each goes as far as it can. Host threads are pulled: only as far as a stream
 * needs a node's issue time.
 *
 * A line is in one place at a time:
 *   READY    on the ready stack (or running)
 *   IDLE     a host thread that nobody needs to go on
 *   AT_LINE  on the list of the line it waits for, until that one is past wait_for
 *   AT_COMM  its group has unresolved parts
 *   PARKED   too far ahead of the external ranks
 *   ENDED
 *
 * Groups. A COMM node in flight; `pending` counts the parts whose feeding starts are not known yet. Group
 * numbers below nlines are those of the lines; the ones above belong to arrivals of external ranks.
 *
 * Times are numbers of nanoseconds, or, where `terms` is set (condense.h), maxima of moments that are not known yet (terms.h):
 * all that is done with them is to add works and durations, and run_later. INT64_MIN is "nothing" in both.
 */
#ifndef PRISM_GRAPH_RUN_PRIVATE_H
#define PRISM_GRAPH_RUN_PRIVATE_H

#include "graph/feeds.h"
#include "graph/run.h"
#include "graph/terms.h"

#define NONE UINT32_MAX

enum line_state { LINE_IDLE, LINE_READY, LINE_AT_LINE, LINE_AT_COMM, LINE_PARKED, LINE_ENDED };

struct run_group {
    int64_t start_ns;
    int64_t max_ns; /* latest start among what feeds it, so far */
    uint32_t pending;
};

struct run_line {
    int64_t end_ns; /* of the line's last node; host: when it goes on */
    uint32_t n, k;
    uint32_t rank;
    uint32_t slot, slot_end; /* slot of n (see run_rank.slots) and the node that begins the next one */
    uint32_t next;           /* on the list it is on */
    uint32_t waiters;        /* lines that wait for this one */
    uint8_t state, is_host;
    uint64_t wait_for; /* position, when AT_LINE */
    uint64_t want;     /* host: asked to get past this position */
    struct run_group group;
};

struct run_link { /* next node of the same stream, of the same host thread; NONE */
    uint32_t stream, host;
};

/* Number of a part among those it can be matched with (collectives of a communicator; sends or receives with
 * one peer), and how many of them one loop has. */
struct run_sequence {
    uint32_t first, step;
};

struct run_rank {
    const struct graph_rank *recorded;
    /* Tables; ranks of a class share those of one of them, which keeps the memory in use small. */
    const struct graph_node *nodes;
    const struct run_link *links;
    const struct run_sequence *sequences; /* by part */
    const uint32_t *line_first;           /* by line: its first node, NONE */
    const uint32_t *loop_first;           /* by line: its first node within the loop, NONE */
    const float *device_work, *host_work; /* NULL = zero */
    /* Ring by position: the issue time until the node is evaluated, its end afterwards. Positions from
     * floor - max_dep on are kept; floor is a lower bound of the cursors. */
    int64_t *time;
    uint64_t mask, floor, top; /* top: past the last position put */
    uint32_t max_dep;
    uint32_t loop_begin, loop_end, len, extra; /* nodes [begin, end) are played 1 + extra times */
    uint32_t limit;                            /* nodes from here on are not played */
    uint32_t total;                            /* iterations played */
    uint32_t first_line, nstreams, nhosts, open_streams;
    int64_t *slots; /* latest end: [0] set-up, [1 + i] iteration i, [1 + total] teardown */
    uint32_t nslots;
    bool external, owns_tables;
    /* External ranks: node of each group, by communicator (comms[c] … comms[c + 1]) and ordinal. */
    uint32_t *group_nodes, *group_comms;
    uint32_t *group_before, *group_loop; /* by communicator: groups before the loop, within it */
    uint32_t loop_groups;                /* groups in the loop, of all communicators */
    uint32_t next_slot;                  /* of the group after the furthest arrival; NONE: it was the last */
};

struct run_external { /* a group that arrived and may wait */
    struct run_group group;
    uint32_t rank, comm, ordinal, n, k, next_free;
    struct graph_part *live; /* owned copy, NULL = as recorded */
    uint32_t nlive;
};

struct run_waiter {
    uint32_t group, next;
};

/* Operations that are not between two ranks. */
enum { RUN_COLLECTIVE = -1, RUN_EXCHANGE = -2 };

/* An operation that some but not all of its members have reached. */
struct run_open {
    uint64_t sequence;
    uint32_t comm;
    int32_t source, destination; /* RUN_COLLECTIVE, RUN_EXCHANGE: both */
    uint32_t hash;               /* 0 = empty place */
    int64_t start_ns;            /* collectives: what feeds, so far; p2p: of the side that came first */
    uint32_t count;              /* members that got here */
    uint32_t waiters;            /* list of run_waiter */
    bool fed;                    /* what it waits for has come: start_ns is final */
};

struct run_table { /* open addressing, linear probing, backward-shift deletion */
    struct run_open *places;
    uint32_t mask, used;
};

struct graph_run {
    const struct graph *graph;
    const uint32_t *as;  /* graph_run_options; NULL = each rank is evaluated */
    uint32_t *members;   /* by communicator: members that are evaluated; NULL = all */
    struct graph_run_ops ops;
    struct run_rank *ranks;
    struct run_line *lines;
    uint32_t nlines;
    uint32_t ready, parked;      /* heads of lists */
    uint32_t lookahead, allowed; /* slots above allowed are parked */
    struct run_table table;
    struct run_waiter *waiters;
    uint32_t nwaiters, waiters_cap, free_waiter;
    struct run_external *externals;
    uint32_t nexternals, externals_cap, free_external;
    struct terms *terms; /* borrowed; NULL: times are numbers */
    uint32_t nevaluated; /* ranks, external ones among them */
    /* With terms: everyone who is evaluated has come to collective `sequence` of the communicator. Returns a moment that stands
     * for the latest start. */
    int64_t (*on_meeting)(void *ctx, uint32_t comm, uint64_t sequence, int64_t start_ns);
};

static inline bool run_is_evaluated(const struct graph_run *run, uint32_t rank)
{
    return !run->as || run->as[rank] == rank;
}

/* Members of a communicator that are evaluated. */
static inline uint32_t run_members(const struct graph_run *run, int32_t global)
{
    return run->members ? run->members[global] : run->graph->comms[global].size;
}

/* Sends and receives on a communicator of which some members are not evaluated: between all of them (fold_twins). */
static inline bool run_is_exchange(const struct graph_run *run, int32_t global)
{
    return run_members(run, global) < run->graph->comms[global].size;
}

static inline uint64_t run_position(const struct run_rank *r, uint32_t n, uint32_t k)
{
    return n + (uint64_t)k * r->len;
}

static inline int64_t run_round(double ns)
{
    return (int64_t)(ns + 0.5);
}

static inline int64_t run_later(const struct graph_run *run, int64_t a, int64_t b)
{
    if (run->terms)
        return terms_later(run->terms, a, b);
    return a > b ? a : b;
}

/* run_setup.c */
struct slot_place {
    uint32_t slot, end;
};
struct slot_place run_slot_of(const struct run_rank *r, uint32_t n, uint32_t k);
void run_slot_raise(struct run_rank *r, uint32_t slot, int64_t end_ns);

/* run_table.c: the place of an operation; made empty (*fresh) when it is not open yet. Valid until the next
 * call. */
struct run_open *run_table_get(struct run_table *t, uint64_t sequence, uint32_t comm, int32_t source,
                               int32_t destination);
const struct run_open *run_table_find(const struct run_table *t, uint64_t sequence, uint32_t comm,
                                      int32_t source, int32_t destination);
void run_table_remove(struct run_table *t, struct run_open *open);

/* run_match.c: bring a group to its operations. live may be NULL. True when nothing is pending. */
bool run_match(struct graph_run *run, struct run_rank *r, uint32_t group_number, struct run_group *group,
               uint32_t n, uint32_t k, const struct graph_part *live);

/* run_lines.c */
void run_drain(struct graph_run *run);
void run_push(struct graph_run *run, uint32_t line);
int64_t run_group_end(struct graph_run *run, struct run_rank *r, const struct run_group *group, uint32_t n,
                      const struct graph_part *live, uint32_t nlive);
/* The COMM node at which the line stands has ended. */
void run_line_comm_ended(struct graph_run *run, uint32_t line);

/* What only lines need, so that run_find_group and run_group_end go on to serve. */
void run_forget_lines(struct graph_run *run);

/* run_terms.c: give back what no time of the run stands for any more. Between lines only: times on the stack do not count. */
void run_collect_terms(struct graph_run *run);

/* run.c */
/* The node that group `ordinal` of an external rank stands for, and its loop. -1 with err: graph_run_arrive. */
int run_find_group(const struct graph_run *run, uint32_t rank, uint32_t comm, uint32_t ordinal, uint32_t *n, uint32_t *k,
                   struct prism_error *err);
/* Whether live parts are the node's but for their counts: only then they decide on eager sends. */
bool run_same_structure(const struct run_rank *r, const struct graph_node *node, const struct graph_part *live, uint32_t nlive);
void run_external_ended(struct graph_run *run, uint32_t index);

#endif
