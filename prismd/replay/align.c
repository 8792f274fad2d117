#include "prismd/replay/align.h"

#include <stdlib.h>

struct align {
    const struct graph_rank *rank;
    uint32_t **groups; /* by communicator: node of each ordinal */
    uint32_t *ngroups;
    uint32_t begin, end; /* recorded nodes between the COMM nodes where the live rank is */
    uint8_t *taken;
    int64_t *found; /* by live node */
    uint32_t n, cap;
};

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

/* The segment behind node `begin - 1`. */
static void enter(struct align *a, uint32_t begin)
{
    a->begin = a->end = begin;
    while (a->end < a->rank->nnodes && a->rank->nodes[a->end].kind != GRAPH_COMM)
        a->end++;
}

struct align *align_create(const struct graph_rank *r)
{
    struct align *a = allocate(1, sizeof *a);
    a->rank = r;
    a->groups = allocate(r->ncomms, sizeof *a->groups);
    a->ngroups = allocate(r->ncomms, sizeof *a->ngroups);
    a->taken = allocate(r->nnodes, 1);
    for (int fill = 0; fill < 2; fill++)
        for (uint32_t i = 0; i < r->nnodes; i++) {
            const struct graph_node *n = &r->nodes[i];
            if (n->kind != GRAPH_COMM || n->comm >= r->ncomms)
                continue;
            if (!fill)
                a->ngroups[n->comm] = n->ordinal >= a->ngroups[n->comm] ? n->ordinal + 1 : a->ngroups[n->comm];
            else if (!a->groups[n->comm])
                a->groups[n->comm] = allocate(a->ngroups[n->comm], sizeof **a->groups);
            if (fill)
                a->groups[n->comm][n->ordinal] = i;
        }
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
    free(a->taken);
    free(a->found);
    free(a);
}

static int64_t match_comm(struct align *a, uint32_t comm, uint32_t ordinal)
{
    if (comm >= a->rank->ncomms || ordinal >= a->ngroups[comm])
        return -1;
    uint32_t node = a->groups[comm][ordinal];
    if (a->rank->nodes[node].kind != GRAPH_COMM || a->rank->nodes[node].comm != comm)
        return -1; /* a hole in the ordinals: graph.bin was not made by capture */
    enter(a, node + 1);
    return node;
}

static int64_t match_other(struct align *a, uint8_t kind, uint32_t stream)
{
    for (uint32_t i = a->begin; i < a->end; i++) {
        const struct graph_node *n = &a->rank->nodes[i];
        if (!a->taken[i] && n->kind == kind && (n->stream == stream || kind == GRAPH_SYNC)) {
            a->taken[i] = 1;
            return i;
        }
    }
    return -1;
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

int64_t align_find(const struct align *a, uint32_t live)
{
    return live < a->n ? a->found[live] : -1;
}
