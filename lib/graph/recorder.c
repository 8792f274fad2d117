#include "graph/recorder.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/check.h"
#include "graph/share.h"

#define NOBODY       UINT32_MAX
#define ELEMENT_MOST 32u
#define FIRST_ROOM   16u

_Static_assert(sizeof(struct graph_node) <= ELEMENT_MOST && sizeof(struct graph_part) <= ELEMENT_MOST, "fits into a branch's key");

/* Nodes, or parts, in the order of recording; members are at different places of it. */
struct track {
    struct graph_shared *shared; /* a reference of its own */
    uint8_t *data;
    uint32_t n, room;
    uint32_t first; /* member, NOBODY: none */
    struct track *next_track;
};

/* Who came to `at` in `from` and went on with this element went to `to`. */
struct branch {
    struct {
        const struct track *from;
        uint32_t at, zero;
        uint8_t element[ELEMENT_MOST];
    } id;
    struct track *to;
    UT_hash_handle hh;
};

enum what { NODES, PARTS };

struct tracks {
    enum what what;
    size_t size; /* of an element */
    struct track *root, *all;
    struct track **of;         /* by rank */
    uint32_t *next, *previous; /* by rank: members of its track */
    struct branch *branches;   /* hash */
};

struct graph_recorder {
    struct graph *g;
    struct tracks nodes, parts;
};

/* ---- A rank's array ---- */

static void show(const struct tracks *t, const struct track *track, struct graph_rank *r)
{
    struct graph_rank from = {0};
    if (t->what == NODES) {
        from.nodes_shared = track->shared;
        from.nodes = (void *)track->data;
        from.nnodes = r->nnodes;
        shared_use_nodes(r, &from);
    } else {
        from.parts_shared = track->shared;
        from.parts = (void *)track->data;
        from.nparts = r->nparts;
        shared_use_parts(r, &from);
    }
}

static void leave(struct tracks *t, uint32_t rank)
{
    struct track *track = t->of[rank];
    if (t->previous[rank] != NOBODY)
        t->next[t->previous[rank]] = t->next[rank];
    else
        track->first = t->next[rank];
    if (t->next[rank] != NOBODY)
        t->previous[t->next[rank]] = t->previous[rank];
}

static void join(struct tracks *t, struct track *track, struct graph *g, uint32_t rank)
{
    if (t->of[rank])
        leave(t, rank);
    t->of[rank] = track;
    t->previous[rank] = NOBODY;
    t->next[rank] = track->first;
    if (track->first != NOBODY)
        t->previous[track->first] = rank;
    track->first = rank;
    show(t, track, &g->ranks[rank]);
}

/* ---- Tracks ---- */

static struct track *add_track(struct tracks *t, const struct track *from, uint32_t n)
{
    struct track *track = check(calloc(1, sizeof *track));
    void *data;
    track->room = FIRST_ROOM;
    while (track->room <= n)
        track->room *= 2;
    track->shared = shared_create(track->room, t->size, &data);
    track->data = data;
    track->n = n;
    track->first = NOBODY;
    if (n)
        memcpy(data, from->data, n * t->size);
    track->next_track = t->all;
    t->all = track;
    return track;
}

static void append(struct tracks *t, struct track *track, struct graph *g, const void *element)
{
    if (track->n == track->room) {
        struct graph_shared *old = track->shared;
        void *data;
        track->room *= 2;
        track->shared = shared_create(track->room, t->size, &data);
        memcpy(data, track->data, track->n * t->size);
        track->data = data;
        for (uint32_t r = track->first; r != NOBODY; r = t->next[r])
            show(t, track, &g->ranks[r]);
        shared_release(old);
    }
    memcpy(track->data + track->n++ * t->size, element, t->size);
}

static struct track *branch_of(struct tracks *t, const struct track *from, uint32_t at, const void *element)
{
    struct branch *b, key;
    memset(&key, 0, sizeof key);
    key.id.from = from;
    key.id.at = at;
    memcpy(key.id.element, element, t->size);
    HASH_FIND(hh, t->branches, &key.id, sizeof key.id, b);
    if (b)
        return b->to;
    b = check(calloc(1, sizeof *b));
    b->id = key.id;
    b->to = add_track(t, from, at);
    HASH_ADD(hh, t->branches, id, sizeof b->id, b);
    return b->to;
}

/* The rank's element number `at`, which is one more than it has. */
static void record(struct tracks *t, struct graph *g, uint32_t rank, uint32_t at, const void *element)
{
    struct track *track = t->of[rank];
    if (at < track->n && memcmp(track->data + at * t->size, element, t->size)) {
        track = branch_of(t, track, at, element);
        join(t, track, g, rank);
    }
    if (at == track->n)
        append(t, track, g, element);
}

static void init_tracks(struct tracks *t, enum what what, size_t size, struct graph *g)
{
    t->what = what;
    t->size = size;
    t->of = check(calloc(g->world + 1u, sizeof *t->of));
    t->next = check(calloc(g->world + 1u, sizeof *t->next));
    t->previous = check(calloc(g->world + 1u, sizeof *t->previous));
    t->root = add_track(t, NULL, 0);
}

static void free_tracks(struct tracks *t)
{
    struct branch *b, *next;
    HASH_ITER(hh, t->branches, b, next) {
        HASH_DEL(t->branches, b);
        free(b);
    }
    for (struct track *track = t->all, *after; track; track = after) {
        after = track->next_track;
        shared_release(track->shared);
        free(track);
    }
    free(t->of);
    free(t->next);
    free(t->previous);
}

/* ---- The recorder ---- */

struct graph_recorder *graph_recorder_create(struct graph *g)
{
    struct graph_recorder *recorder = check(calloc(1, sizeof *recorder));
    recorder->g = g;
    init_tracks(&recorder->nodes, NODES, sizeof(struct graph_node), g);
    init_tracks(&recorder->parts, PARTS, sizeof(struct graph_part), g);
    return recorder;
}

int graph_record(struct graph_recorder *recorder, uint32_t rank, const struct graph_node *node, const struct graph_part *parts,
                 uint32_t nparts)
{
    struct graph *g = recorder->g;
    if (!graph_may_add_node(g, rank, node, nparts))
        return -1;
    struct graph_rank *r = &g->ranks[rank];
    if (!recorder->nodes.of[rank]) {
        join(&recorder->nodes, recorder->nodes.root, g, rank);
        join(&recorder->parts, recorder->parts.root, g, rank);
    }
    struct graph_node n = *node;
    n.unused = 0;
    n.first_part = r->nparts;
    n.nparts = nparts;
    record(&recorder->nodes, g, rank, r->nnodes, &n);
    r->nnodes++;
    for (uint32_t i = 0; i < nparts; i++) {
        struct graph_part p = parts[i];
        p.unused = 0;
        record(&recorder->parts, g, rank, r->nparts, &p);
        r->nparts++;
    }
    graph_note_lines(r, &n);
    return 0;
}

void graph_recorder_destroy(struct graph_recorder *recorder)
{
    if (!recorder)
        return;
    free_tracks(&recorder->nodes);
    free_tracks(&recorder->parts);
    free(recorder);
}
