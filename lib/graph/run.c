#include "graph/run.h"

#include <stdlib.h>
#include <string.h>

#include "graph/run_private.h"
#include "graph/run_setup.h"
#include "graph/validate.h"

/* ---- How far virtual ranks may go ---- */

/* Slot of the first COMM node at or after (n, k); NONE when there is none. */
static uint32_t next_group_slot(const struct run_rank *r, uint32_t n, uint32_t k)
{
    for (;; n++) {
        if (n == r->loop_end && k < r->extra) {
            k = r->loop_groups ? k + 1 : r->extra;
            n = r->loop_groups ? r->loop_begin : r->loop_end;
        }
        if (n >= r->limit)
            return NONE;
        if (r->nodes[n].kind == GRAPH_COMM)
            return run_slot_of(r, n, k).slot;
    }
}

/* Virtual ranks may be as far as the lookahead beyond the next group of the slowest external rank. */
static void set_allowed(struct graph_run *run)
{
    run->allowed = UINT32_MAX;
    if (!run->lookahead)
        return;
    for (uint32_t i = 0; i < run->graph->world; i++) {
        const struct run_rank *r = &run->ranks[i];
        if (!r->external || r->next_slot == NONE)
            continue;
        uint32_t slot = r->next_slot > 1 ? r->next_slot : 1;
        uint32_t allowed = slot > UINT32_MAX - run->lookahead ? UINT32_MAX : slot + run->lookahead;
        if (allowed < run->allowed)
            run->allowed = allowed;
    }
}

static void unpark(struct graph_run *run)
{
    uint32_t *link = &run->parked;
    while (*link != NONE) {
        uint32_t line = *link;
        if (run->lines[line].slot > run->allowed) {
            link = &run->lines[line].next;
            continue;
        }
        *link = run->lines[line].next;
        run_push(run, line);
    }
}

/* ---- Create, begin ---- */

struct graph_run *graph_run_create(const struct graph *g, const struct graph_run_ops *ops,
                                   const struct graph_run_options *options)
{
    static const struct graph_run_options as_recorded;
    if (graph_validate(g, NULL))
        return NULL;
    struct graph_run *run = calloc(1, sizeof *run);
    if (!run)
        abort();
    if (!options)
        options = &as_recorded;
    run->graph = g;
    run->ops = *ops;
    run->lookahead = options->lookahead;
    run->ready = run->parked = run->free_waiter = run->free_external = NONE;
    run_setup(run, options);
    for (uint32_t i = 0; i < g->world; i++) {
        if (!run_is_evaluated(run, i))
            continue;
        run->nevaluated++;
        run->ranks[i].next_slot = next_group_slot(&run->ranks[i], 0, 0);
    }
    set_allowed(run);
    return run;
}

void graph_run_destroy(struct graph_run *run)
{
    if (!run)
        return;
    for (uint32_t i = 0; i < run->graph->world; i++)
        run_rank_free(&run->ranks[i]);
    for (uint32_t i = 0; i < run->nexternals; i++)
        free(run->externals[i].live);
    free(run->members);
    free(run->ranks);
    free(run->lines);
    free(run->table.places);
    free(run->waiters);
    free(run->externals);
    free(run);
}

void run_forget_lines(struct graph_run *run)
{
    for (uint32_t i = 0; i < run->graph->world; i++) {
        free(run->ranks[i].time);
        run->ranks[i].time = NULL;
    }
    free(run->lines);
    free(run->table.places);
    free(run->waiters);
    run->lines = NULL;
    run->waiters = NULL;
    run->table = (struct run_table){0};
    run->nlines = run->nwaiters = 0;
}

void graph_run_begin(struct graph_run *run, int64_t t0_ns)
{
    for (uint32_t i = run->nlines; i-- > 0;) {
        struct run_line *l = &run->lines[i];
        l->end_ns = t0_ns;
        if (!l->is_host && l->n != NONE)
            run_push(run, i);
    }
    /* Ranks without stream nodes: nobody pulls their host threads. */
    for (uint32_t i = 0; i < run->nlines; i++) {
        struct run_line *l = &run->lines[i];
        if (l->is_host && l->n != NONE && !run->ranks[l->rank].open_streams) {
            l->want = UINT64_MAX;
            run_push(run, i);
        }
    }
    run_drain(run);
}

/* ---- External ranks ---- */

static uint32_t external_take(struct graph_run *run)
{
    uint32_t i = run->free_external;
    if (i != NONE) {
        run->free_external = run->externals[i].next_free;
        return i;
    }
    if (run->nexternals == run->externals_cap) {
        run->externals_cap = run->externals_cap ? run->externals_cap * 2 : 64;
        run->externals = realloc(run->externals, run->externals_cap * sizeof *run->externals);
        if (!run->externals)
            abort();
    }
    return run->nexternals++;
}

void run_external_ended(struct graph_run *run, uint32_t index)
{
    struct run_external *e = &run->externals[index];
    struct run_rank *r = &run->ranks[e->rank];
    int64_t end = run_group_end(run, r, &e->group, e->n, e->live, e->nlive);
    if (!run->terms)
        run_slot_raise(r, run_slot_of(r, e->n, e->k).slot, end);
    if (run->ops.on_release)
        run->ops.on_release(run->ops.ctx, e->rank, e->comm, e->ordinal, e->group.max_ns, end);
    free(e->live);
    e->live = NULL;
    e->next_free = run->free_external;
    run->free_external = index;
}

int run_find_group(const struct graph_run *run, uint32_t rank, uint32_t comm, uint32_t ordinal, uint32_t *n, uint32_t *k,
                   struct prism_error *err)
{
    if (rank >= run->graph->world || !run->ranks[rank].external)
        return prism_error_set(err, PRISM_EXIT_DAEMON, "rank %u: not a sandbox rank of this replay", rank);
    const struct run_rank *r = &run->ranks[rank];
    if (comm >= r->recorded->ncomms || r->recorded->comms[comm].global < 0)
        return prism_error_set(
            err, PRISM_EXIT_DIVERGED,
            "rank %u: communicator %u is not in the trace (it has %u); was the program changed "
            "since capture? capture again",
            rank, comm, r->recorded->ncomms);
    uint64_t before = r->group_before[comm], loop = r->group_loop[comm],
             played = loop * (1 + (uint64_t)r->extra);
    uint64_t recorded = r->group_comms[comm + 1] - r->group_comms[comm];
    uint64_t index = ordinal;
    *k = 0;
    if (ordinal >= before && ordinal < before + played) {
        *k = (uint32_t)((ordinal - before) / loop);
        index = before + (ordinal - before) % loop;
    } else if (ordinal >= before) {
        *k = r->extra;
        index = ordinal - (played - loop);
    }
    if (index >= recorded)
        return prism_error_set(
            err, PRISM_EXIT_DIVERGED,
            "rank %u: group %u on communicator %u, but the trace has only %llu and the replay goes "
            "%u iterations; ask for more with --prism-iterations",
            rank, ordinal, comm, (unsigned long long)(recorded - loop + played), r->total);
    *n = r->group_nodes[r->group_comms[comm] + index];
    return 0;
}

bool run_same_structure(const struct run_rank *r, const struct graph_node *node, const struct graph_part *live, uint32_t nlive)
{
    const struct graph_part *recorded = &r->recorded->parts[node->first_part];
    if (nlive != node->nparts)
        return false;
    for (uint32_t i = 0; i < nlive; i++)
        if (live[i].op != recorded[i].op || live[i].peer != recorded[i].peer)
            return false;
    return true;
}

static void note_progress(struct graph_run *run, struct run_rank *r, uint32_t n, uint32_t k)
{
    if (!run->lookahead || r->next_slot == NONE || run_slot_of(r, n, k).slot < r->next_slot)
        return;
    uint32_t slot = next_group_slot(r, n + 1, k);
    if (slot <= r->next_slot)
        return;
    r->next_slot = slot;
    uint32_t allowed = run->allowed;
    set_allowed(run);
    if (run->allowed > allowed)
        unpark(run);
}

int graph_run_arrive(struct graph_run *run, uint32_t rank, uint32_t comm, uint32_t ordinal, int64_t start_ns,
                     const struct graph_part *live_parts, uint32_t nlive, struct prism_error *err)
{
    uint32_t n = 0, k = 0;
    if (run_find_group(run, rank, comm, ordinal, &n, &k, err))
        return -1;
    struct run_rank *r = &run->ranks[rank];
    uint32_t index = external_take(run);
    struct run_external *e = &run->externals[index];
    *e = (struct run_external){.rank = rank, .comm = comm, .ordinal = ordinal, .n = n, .k = k};
    e->group.start_ns = start_ns;
    if (live_parts && nlive) {
        e->live = malloc(nlive * sizeof *e->live);
        if (!e->live)
            abort();
        memcpy(e->live, live_parts, nlive * sizeof *e->live);
        e->nlive = nlive;
    }
    const struct graph_part *live =
        e->live && run_same_structure(r, &r->nodes[n], e->live, nlive) ? e->live : NULL;
    if (run_match(run, r, run->nlines + index, &e->group, n, k, live))
        run_external_ended(run, index);
    note_progress(run, r, n, k);
    run_drain(run);
    return 0;
}

/* ---- Results ---- */

static int64_t slot_end(const struct graph_run *run, uint32_t rank, uint32_t slot)
{
    if (rank < run->graph->world && run->as)
        rank = run->as[rank];
    if (rank >= run->graph->world || slot >= run->ranks[rank].nslots)
        return INT64_MIN;
    return run->ranks[rank].slots[slot];
}

int64_t graph_run_iteration_end(const struct graph_run *run, uint32_t rank, uint32_t iteration)
{
    if (rank >= run->graph->world || iteration >= run->ranks[rank].total)
        return INT64_MIN;
    return slot_end(run, rank, iteration + 1);
}

int64_t graph_run_setup_end(const struct graph_run *run, uint32_t rank)
{
    return slot_end(run, rank, 0);
}
