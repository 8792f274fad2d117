/* run_terms.c - which times a run may still ask for, where they are terms (condense.c). */
#include "graph/run_private.h"

static void mark_ring(struct terms *t, const struct run_rank *r)
{
    for (uint64_t p = r->floor > r->max_dep ? r->floor - r->max_dep : 0; r->time && p < r->top; p++)
        terms_mark(t, r->time[p & r->mask]);
}

static void mark_group(struct terms *t, const struct run_group *g)
{
    terms_mark(t, g->start_ns);
    terms_mark(t, g->max_ns);
}

void run_collect_terms(struct graph_run *run)
{
    struct terms *t = run->terms;
    for (uint32_t i = 0; i < run->graph->world; i++)
        mark_ring(t, &run->ranks[i]);
    for (uint32_t i = 0; i < run->nlines; i++) {
        terms_mark(t, run->lines[i].end_ns);
        if (run->lines[i].state == LINE_AT_COMM)
            mark_group(t, &run->lines[i].group);
    }
    for (uint32_t i = 0; i < run->nexternals; i++)
        mark_group(t, &run->externals[i].group);
    for (uint32_t i = 0; run->table.places && i <= run->table.mask; i++)
        if (run->table.places[i].hash)
            terms_mark(t, run->table.places[i].start_ns);
    terms_sweep(t);
}
