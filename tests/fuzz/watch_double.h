/* watch_double.h - gates without a device (gates/watch.h): the head of a stream, and what is early, arrives at once, and opens in its
 * turn when the target says so (open_gates). Once a program; with rank_double.h. */
#ifndef PRISM_TESTS_FUZZ_WATCH_DOUBLE_H
#define PRISM_TESTS_FUZZ_WATCH_DOUBLE_H

#include <stdlib.h>

#include "prismd/gates/watch.h"
#include "prismd/ranks/sched.h"
#include "tests/fuzz/rank_double.h"

#define STREAMS 8u

static struct group *to_open[1024];
static uint32_t nto_open;

static void arrive(struct group *g)
{
    g->arrived = true;
    g->arrived_ns = 1000 * (int64_t)g->position;
    g->rank->daemon->ops->arrived(g->rank->daemon, g);
}

void watch_add(struct watch *w, struct group *g)
{
    struct rank *r = g->rank;
    if (!r->streams && !(r->streams = calloc(STREAMS, sizeof *r->streams)))
        abort();
    r->nstreams = STREAMS;
    g->stream %= STREAMS;
    g->next_of_rank = r->groups;
    r->groups = g;
    struct group **at = &r->streams[g->stream];
    while (*at)
        at = &(*at)->next_on_stream;
    *at = g;
    if (g == r->streams[g->stream] || g->early)
        arrive(g);
}

void watch_open_at(struct watch *w, struct group *g, int64_t ns)
{
    if (!g->arrived || g->opened || g != g->rank->streams[g->stream])
        abort();
    g->open_at_ns = ns;
    for (uint32_t i = 0; i < nto_open; i++)
        if (to_open[i] == g)
            return;
    if (nto_open < sizeof to_open / sizeof *to_open)
        to_open[nto_open++] = g;
}

void watch_writers_wake(struct watch *w)
{
}

void sched_open(struct daemon *d, struct group *g)
{
    watch_open_at(NULL, g, 0);
}

static void open_gates(struct daemon *d)
{
    while (nto_open && !d->stopping) {
        struct group *g = to_open[--nto_open], **at = &g->rank->groups, *next = g->next_on_stream;
        while (*at != g)
            at = &(*at)->next_of_rank;
        *at = g->next_of_rank;
        g->opened = true;
        g->rank->streams[g->stream] = next;
        if (d->ops->opened)
            d->ops->opened(d, g);
        free_group(g);
        if (next && !next->early && !d->stopping)
            arrive(next);
    }
}

#endif
