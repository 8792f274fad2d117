#include "prismd/replay/align.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct align {
    const struct graph_rank *rank;
    uint32_t **groups; /* by communicator: node of each ordinal */
    uint32_t *ngroups;
    uint32_t begin, end; /* recorded nodes between the COMM nodes where the live rank is */
    uint8_t *taken;
    uint32_t loop_begin, loop_end, head_end; /* nodes of the last iteration, and its first COMM node; loop_end 0: no loop */
    uint32_t *loop_first; /* by communicator: ordinal of the last iteration's first group; ngroups: it has none */
    bool head;            /* behind the last iteration: its beginning may come again */
    uint32_t pass, found_pass;
    int64_t *found; /* by live node */
    uint32_t n, cap;
};

/* The segment behind node `begin - 1`. */
static void enter(struct align *a, uint32_t begin)
{
    a->begin = a->end = begin;
    while (a->end < a->rank->nnodes && a->rank->nodes[a->end].kind != GRAPH_COMM)
        a->end++;
    a->head = a->loop_end && begin > a->head_end && a->end >= a->loop_end;
    if (a->pass)
        memset(a->taken + a->begin, 0, a->end - a->begin);
    if (a->head)
        memset(a->taken + a->loop_begin, 0, a->head_end - a->loop_begin);
}

/* Nothing may be recorded behind the last iteration: then the program would go on with that. */
static void find_loop(struct align *a)
{
    const struct graph_rank *r = a->rank;
    uint32_t begin = r->niterations ? r->iterations[r->niterations - 1] : 0, end = r->niterations ? r->iterations[r->niterations] : 0;
    uint32_t first = r->nnodes;
    for (uint32_t i = r->nnodes; i-- > 0;) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM || n->comm >= r->ncomms)
            continue;
        if (i >= end || i < begin) {
            if (i >= end)
                return;
            break;
        }
        a->loop_first[n->comm] = n->ordinal;
        first = i;
    }
    if (first == r->nnodes)
        return;
    a->loop_begin = begin;
    a->loop_end = end;
    a->head_end = first;
}

struct align *align_create(const struct graph_rank *r)
{
    struct align *a = array_zeros(1, sizeof *a);
    a->rank = r;
    a->groups = array_zeros(r->ncomms, sizeof *a->groups);
    a->ngroups = array_zeros(r->ncomms, sizeof *a->ngroups);
    a->taken = array_zeros(r->nnodes, 1);
    a->loop_first = array_zeros(r->ncomms, sizeof *a->loop_first);
    for (int fill = 0; fill < 2; fill++)
        for (uint32_t i = 0; i < r->nnodes; i++) {
            const struct graph_node *n = &r->nodes[i];
            if (n->kind != GRAPH_COMM || n->comm >= r->ncomms)
                continue;
            if (!fill)
                a->ngroups[n->comm] = n->ordinal >= a->ngroups[n->comm] ? n->ordinal + 1 : a->ngroups[n->comm];
            else if (!a->groups[n->comm])
                a->groups[n->comm] = array_zeros(a->ngroups[n->comm], sizeof **a->groups);
            if (fill)
                a->groups[n->comm][n->ordinal] = i;
        }
    memcpy(a->loop_first, a->ngroups, r->ncomms * sizeof *a->loop_first);
    find_loop(a);
    enter(a, 0);
    return a;
}

void align_destroy(struct align *a)
{
    if (!a)
        return;
    for (uint32_t c = 0; c < a->rank->ncomms; c++)
        free(a->groups[c]);
    free(a->groups);
    free(a->ngroups);
    free(a->loop_first);
    free(a->taken);
    free(a->found);
    free(a);
}

static int64_t match_comm(struct align *a, uint32_t comm, uint32_t ordinal)
{
    uint32_t n = comm < a->rank->ncomms ? a->ngroups[comm] : 0, pass = 0;
    if (ordinal >= n) {
        uint32_t looped = n && a->loop_end ? n - a->loop_first[comm] : 0;
        if (!looped)
            return -1;
        pass = 1 + (ordinal - n) / looped;
        ordinal = a->loop_first[comm] + (ordinal - n) % looped;
    }
    uint32_t node = a->groups[comm][ordinal];
    if (a->rank->nodes[node].kind != GRAPH_COMM || a->rank->nodes[node].comm != comm)
        return -1; /* a hole in the ordinals: graph.bin was not made by capture */
    a->pass = a->found_pass = pass;
    enter(a, node + 1);
    return node;
}

static int64_t match_between(struct align *a, uint32_t begin, uint32_t end, uint8_t kind, uint32_t stream)
{
    for (uint32_t i = begin; i < end; i++) {
        const struct graph_node *n = &a->rank->nodes[i];
        if (!a->taken[i] && n->kind == kind && (n->stream == stream || kind == GRAPH_SYNC)) {
            a->taken[i] = 1;
            return i;
        }
    }
    return -1;
}

static int64_t match_other(struct align *a, uint8_t kind, uint32_t stream)
{
    int64_t node = match_between(a, a->begin, a->end, kind, stream);
    a->found_pass = a->pass;
    if (node >= 0 || !a->head)
        return node;
    a->found_pass++;
    return match_between(a, a->loop_begin, a->head_end, kind, stream);
}

int64_t align_next(struct align *a, uint8_t kind, uint32_t stream, uint32_t comm, uint32_t ordinal)
{
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 1024;
        a->found = realloc(a->found, a->cap * sizeof *a->found);
        if (!a->found)
            abort();
    }
    return a->found[a->n++] = kind == GRAPH_COMM ? match_comm(a, comm, ordinal) : match_other(a, kind, stream);
}

uint32_t align_pass(const struct align *a)
{
    return a->found_pass;
}

int64_t align_find(const struct align *a, uint32_t live)
{
    return live < a->n ? a->found[live] : -1;
}
