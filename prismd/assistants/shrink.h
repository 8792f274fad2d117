/* shrink.h - a communicator of the graph, shrunk to its sandbox ranks and an assistant: who is in it, what an
 * operation makes the assistant do, and what it costs.
 *
 * Pure functions of graph, sandbox set and groups; the plans are lib/coll's.
 */
#ifndef PRISM_PRISMD_SHRINK_H
#define PRISM_PRISMD_SHRINK_H

#include "common/bytes.h"
#include "graph/graph.h"
#include "prismd/assistants/arming.h"
#include "trace/trace.h"

struct live;
struct shrink_plan;

struct shrink {
    const struct graph *graph; /* borrowed */
    uint32_t global;
    int size;                  /* of the full communicator */
    int n;                     /* sandbox members */
    int *ranks;                /* owned; ascending ranks of the full communicator */
    uint32_t *worlds;          /* owned; their world ranks */
    uint32_t *comms;           /* owned; how each of them numbers it */
    struct shrink_plan *plans; /* hash */
};

/* sandbox: by world rank, not 0 = member of the sandbox. */
struct shrink *shrink_create(const struct graph *g, uint32_t global, const uint8_t *sandbox);
void shrink_destroy(struct shrink *s); /* NULL is fine */
/* 1 where there are virtual ranks. */
int shrink_assistants(const struct shrink *s);
/* The member of that world rank, -1 if none. */
int shrink_member(const struct shrink *s, uint32_t world_rank);

/* One member's group: as it is now (NULL: it takes no part), and the recorded one that it stands for. */
struct shrink_group {
    const struct arming_group *live;
    const struct graph_node *recorded; /* NULL = nothing is recorded for it */
    uint32_t ordinal;                  /* of the recorded one */
};

/* What the trace's payloads hold and what is brought of it (not UNSAID): NONE = everything is zero; CONTROL = what control mode does
 * not keep is synthetic, made by the assistant. */
struct shrink_payloads {
    enum trace_payload hold, bring;
};

/* What the assistant does for these groups (one a member): appends a struct order_run with its segments and
 * calls to `out`, type and communicator set. *changed: sizes are not the recorded ones (data is cut, or zero where there is too
 * little). -1 with err: an operation that has no plan. */
int shrink_order(struct shrink *s, const struct shrink_group *groups, struct shrink_payloads payloads, struct bytes *out,
                 bool *changed, struct prism_error *err);

/* Bytes through the member's links, both directions: really, and in the full communicator's rings. */
struct shrink_volume {
    uint64_t bytes, full;
};
/* Zero for what has no plan. */
struct shrink_volume shrink_part_volume(struct shrink *s, int member, const struct graph_part *part);

#endif
