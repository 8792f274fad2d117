/* eval_state.c - what a rank has of its own: lines, places to wait, times, ends of iterations. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "graph/eval_private.h"

void *eval_allocate(size_t n, size_t size)
{
    size_t bytes = ((n ? n : 1) * size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    void *p = aligned_alloc(CACHE_LINE, bytes);
    if (!p)
        abort();
    return memset(p, 0, bytes);
}

/* ---- Slots: set-up, iterations, teardown ---- */

uint32_t eval_slot_of(const struct graph_rank *r, uint32_t n, uint32_t *end)
{
    if (!r->niterations) {
        *end = NONE;
        return 1;
    }
    if (n < r->iterations[0]) {
        *end = r->iterations[0];
        return 0;
    }
    if (n >= r->iterations[r->niterations]) {
        *end = NONE;
        return r->niterations + 1;
    }
    uint32_t low = 0, high = r->niterations; /* iterations[low] <= n < iterations[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (r->iterations[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    *end = r->iterations[high];
    return low + 1;
}

static uint32_t count_slots(const struct eval_rank *r)
{
    return (r->recorded->niterations ? r->recorded->niterations : 1u) + 2u;
}

/* ---- Places, in the order in which ranks were dealt ---- */

struct places { /* counts of what ranks have, of the ones before */
    size_t lines, waiters, slots, times;
};

static size_t whole_lines(size_t n, size_t size)
{
    size_t in_a_line = CACHE_LINE / size;
    return (n + in_a_line - 1) / in_a_line * in_a_line;
}

/* Where the rank's things begin. before: the rank dealt before it, or NULL. */
static void begin_rank(struct places *p, const struct eval_rank *before, const struct eval_rank *r)
{
    if (!before || before->thread == r->thread)
        return;
    p->waiters = whole_lines(p->waiters, sizeof(struct eval_waiter));
    p->slots = whole_lines(p->slots, sizeof *r->slots);
}

/* Of a ring that need not grow as long as the rank's lines stay close to each other. */
static uint64_t ring_size(const struct eval_rank *r)
{
    uint64_t size = 32;
    while (size < 2 * ((uint64_t)r->shape->max_dep + 8))
        size *= 2;
    return size;
}

static void end_rank(struct places *p, const struct eval_rank *r)
{
    p->lines += r->shape->nstreams + r->shape->nhosts;
    p->slots += count_slots(r);
    p->times += ring_size(r);
    for (uint32_t i = 0; i < r->shape->nstreams; i++)
        p->waiters += r->shape->most_parts[i];
}

static struct eval_rank *dealt(const struct graph_eval *e, uint32_t i)
{
    return i < e->graph->world ? &e->ranks[e->order[i]] : NULL;
}

/* ---- Lines ---- */

static void set_line(struct graph_eval *e, struct eval_rank *r, uint32_t i, uint32_t *waiter)
{
    uint32_t line = r->first_line + i;
    struct eval_line *l = &e->lines[line];
    l->rank = (uint32_t)(r - e->ranks);
    l->is_host = i >= r->shape->nstreams;
    l->next = l->waiters = NONE;
    l->n = r->shape->first[i];
    l->state = l->n == NONE ? EVAL_ENDED : EVAL_IDLE;
    l->waiter = *waiter;
    if (l->is_host)
        return;
    for (uint32_t k = 0; k < r->shape->most_parts[i]; k++)
        e->waiters[(*waiter)++].line = line;
    if (l->n == NONE)
        return;
    l->slot = eval_slot_of(r->recorded, l->n, &l->slot_end);
    r->open_streams++;
}

static void set_rank(struct graph_eval *e, struct eval_rank *r, const struct places *p, int64_t *slots, int64_t *times)
{
    uint32_t waiter = (uint32_t)p->waiters;
    r->first_line = (uint32_t)p->lines;
    r->first_host = r->first_line + r->shape->nstreams;
    r->max_dep = r->shape->max_dep;
    r->nnodes = r->shape->nnodes;
    r->time = times + p->times;
    r->mask = (uint32_t)(ring_size(r) - 1);
    r->slots = slots + p->slots;
    for (uint32_t i = 0; i < count_slots(r); i++)
        r->slots[i] = INT64_MIN;
    for (uint32_t i = 0; i < r->shape->nstreams + r->shape->nhosts; i++)
        set_line(e, r, i, &waiter);
}

static void set_ranks(struct graph_eval *e)
{
    struct places p = {0};
    struct eval_rank *before = NULL, *r;
    for (uint32_t i = 0; (r = dealt(e, i)); before = r, i++) {
        begin_rank(&p, before, r);
        end_rank(&p, r);
    }
    e->nlines = (uint32_t)p.lines;
    e->lines = eval_allocate(p.lines, sizeof *e->lines);
    e->waiters = eval_allocate(p.waiters, sizeof *e->waiters);
    int64_t *slots = e->memory[2] = eval_allocate(p.slots, sizeof *slots);
    int64_t *times = e->memory[5] = eval_allocate(p.times, sizeof *times);
    p = (struct places){0};
    before = NULL;
    for (uint32_t i = 0; (r = dealt(e, i)); before = r, i++) {
        begin_rank(&p, before, r);
        set_rank(e, r, &p, slots, times);
        end_rank(&p, r);
    }
}

/* ---- What is kept ---- */

/* of: struct graph_eval_options, keep_of. */
static void set_times(struct graph_eval *e, const uint8_t *of)
{
    size_t nodes = 0;
    for (uint32_t i = 0; i < e->graph->world; i++)
        nodes += of && !of[i] ? 0 : e->graph->ranks[i].nnodes;
    struct graph_times *times = e->memory[3] = malloc((nodes + 1) * sizeof *times);
    if (!times)
        abort();
    for (size_t i = 0; i < nodes; i++)
        times[i] = (struct graph_times){INT64_MIN, INT64_MIN};
    for (uint32_t i = 0; i < e->graph->world; i++) {
        if (of && !of[i])
            continue;
        e->ranks[i].times = times;
        times += e->graph->ranks[i].nnodes;
    }
}

static void set_log(struct graph_eval *e)
{
    size_t events = 0;
    for (uint32_t i = 0; i < e->graph->world; i++)
        events += e->ranks[i].shape->nnodes + e->ranks[i].shape->nops;
    e->threads[0].log = e->memory[4] = array_zeros(events, sizeof *e->threads[0].log);
}

_Static_assert(sizeof(struct eval_line) == CACHE_LINE && sizeof(struct eval_channel) == CACHE_LINE &&
                   sizeof(struct eval_rank) == 2 * CACHE_LINE,
               "cache lines");

void eval_state(struct graph_eval *e, const struct graph_eval_options *options)
{
    set_ranks(e);
    if (options->keep_times || options->keep_slack)
        set_times(e, options->keep_slack ? NULL : options->keep_of);
    if (options->keep_slack)
        set_log(e);
}
