/* marks.c - the marks of many ranks: kept, copied, sent. What they tell: marks_find.c. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "graph/marks_private.h"

#define LOST UINT32_MAX /* instead of a rank's number of marks */
#define MARK_BYTES 13u

struct graph_marks *graph_marks_create(uint32_t world)
{
    struct graph_marks *m = array_zeros(1, sizeof *m);
    m->world = world;
    m->ranks = array_zeros(world, sizeof *m->ranks);
    return m;
}

void graph_marks_destroy(struct graph_marks *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->world; i++)
        free(m->ranks[i].marks);
    free(m->ranks);
    free(m);
}

static void lose(struct rank_marks *r)
{
    free(r->marks);
    *r = (struct rank_marks){.lost = true};
}

static void drop(struct rank_marks *r, uint64_t name)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->marks[i].name != name)
            r->marks[kept++] = r->marks[i];
    r->n = kept;
}

int graph_marks_add(struct graph_marks *m, uint32_t rank, int kind, uint64_t name, uint32_t position)
{
    if (rank >= m->world || kind < GRAPH_MARK_PUSH || kind > GRAPH_MARK_DROP)
        return -1;
    struct rank_marks *r = &m->ranks[rank];
    if (kind == GRAPH_MARK_DROP)
        drop(r, name);
    else if (r->n == GRAPH_MARKS_MAX)
        lose(r);
    if (kind == GRAPH_MARK_DROP || r->lost)
        return 0;
    r->marks = array_room(r->marks, r->n, &r->cap, sizeof *r->marks);
    uint32_t at = r->n++;
    for (; at && r->marks[at - 1].position > position; at--)
        r->marks[at] = r->marks[at - 1];
    r->marks[at] = (struct mark){name, position, (uint32_t)kind};
    return 0;
}

void graph_marks_copy(struct graph_marks *to, uint32_t to_rank, const struct graph_marks *from, uint32_t from_rank)
{
    struct rank_marks *t = &to->ranks[to_rank];
    const struct rank_marks *f = &from->ranks[from_rank];
    if (t == f)
        return;
    free(t->marks);
    *t = (struct rank_marks){.n = f->n, .cap = f->n, .lost = f->lost};
    if (f->n) {
        t->marks = array_zeros(f->n, sizeof *t->marks);
        memcpy(t->marks, f->marks, f->n * sizeof *t->marks);
    }
}

void graph_marks_put(const struct graph_marks *m, struct bytes *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; m && i < m->world; i++)
        n += m->ranks[i].n || m->ranks[i].lost;
    bytes_put_u32(out, n);
    for (uint32_t i = 0; m && i < m->world; i++) {
        const struct rank_marks *r = &m->ranks[i];
        if (!r->n && !r->lost)
            continue;
        bytes_put_u32(out, i);
        bytes_put_u32(out, r->lost ? LOST : r->n);
        for (uint32_t k = 0; k < r->n; k++) {
            bytes_put_u64(out, r->marks[k].name);
            bytes_put_u32(out, r->marks[k].position);
            bytes_put_u8(out, (uint8_t)r->marks[k].kind);
        }
    }
}

static void take_rank(struct bytes_reader *b, struct graph_marks *m)
{
    uint32_t rank = bytes_get_u32(b), n = bytes_get_u32(b);
    bool bad = b->bad || rank >= m->world || m->ranks[rank].n || m->ranks[rank].lost ||
               (n != LOST && (n > GRAPH_MARKS_MAX || n > (b->len - b->pos) / MARK_BYTES));
    if (!bad && n == LOST)
        lose(&m->ranks[rank]);
    for (uint32_t i = 0; !bad && n != LOST && i < n; i++) {
        uint64_t name = bytes_get_u64(b);
        uint32_t position = bytes_get_u32(b), kind = bytes_get_u8(b);
        bad = (kind != GRAPH_MARK_PUSH && kind != GRAPH_MARK_POP) || graph_marks_add(m, rank, (int)kind, name, position);
    }
    b->bad |= bad;
}

struct graph_marks *graph_marks_take(struct bytes_reader *b, uint32_t world)
{
    struct graph_marks *m = graph_marks_create(world);
    uint32_t n = bytes_get_u32(b);
    b->bad |= n > world;
    for (uint32_t i = 0; i < n && !b->bad; i++)
        take_rank(b, m);
    if (!b->bad)
        return m;
    graph_marks_destroy(m);
    return NULL;
}
