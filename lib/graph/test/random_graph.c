#include "random_graph.h"

#include <stdlib.h>

#include "graph/feeds.h"

#define RECORDS 8
#define PARTS   24

uint32_t random_below(uint64_t *state, uint32_t n)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return n ? (uint32_t)((z ^ z >> 31) % n) : 0;
}

struct builder {
    uint64_t *state;
    struct graph *g;
    struct random_shape shape;
    uint32_t ordinals[8][16];
    uint32_t records[8][RECORDS]; /* the rank's last records: node + 1 */
};

struct random_shape random_shape(uint64_t *state)
{
    struct random_shape s = {
        .world = 1 + random_below(state, 8),
        .streams = 1 + random_below(state, 4),
        .hosts = 1 + random_below(state, 2),
        .comms = 1 + random_below(state, 4),
        .setup = random_below(state, 4),
        .steps = 1 + random_below(state, 5),
        .iterations = 1 + random_below(state, 3),
        .teardown = random_below(state, 3),
        .works = random_below(state, 8) != 0,
        .rotate = random_below(state, 2),
        .alike = random_below(state, 2),
        .drop = random_below(state, 4) ? 0 : 6,
    };
    if (s.drop)
        s.iterations = 1; /* what is left out must be so everywhere in the loop */
    s.iterations += s.rotate;
    return s;
}

static void add_comms(struct builder *b)
{
    for (uint32_t c = 0; c < b->shape.comms; c++) {
        int32_t members[8];
        uint32_t n = 0;
        for (uint32_t r = 0; r < b->shape.world; r++)
            if (!c || random_below(b->state, 3))
                members[n++] = (int32_t)r;
        for (uint32_t i = n; i > 1; i--) {
            uint32_t j = random_below(b->state, i);
            int32_t t = members[i - 1];
            members[i - 1] = members[j];
            members[j] = t;
        }
        int global = graph_add_comm(b->g, members, n);
        for (uint32_t r = 0; r < b->shape.world; r++)
            graph_set_member(b->g, r, c, -1, -1);
        for (uint32_t i = 0; i < n; i++)
            graph_set_member(b->g, (uint32_t)members[i], c, global, (int32_t)i);
    }
}

static struct graph_node blank(struct builder *b, uint8_t kind)
{
    struct graph_node n = {.kind = kind, .host = (uint16_t)random_below(b->state, b->shape.hosts)};
    n.stream = kind == GRAPH_SYNC ? 0 : random_below(b->state, b->shape.streams);
    return n;
}

/* A node that waits for one of the rank's last records, or records. */
static void add_local(struct builder *b, uint32_t rank)
{
    uint32_t at = b->g->ranks[rank].nnodes, which = random_below(b->state, RECORDS);
    struct graph_node n = blank(b, (uint8_t)(GRAPH_RECORD + random_below(b->state, 4)));
    if (n.kind == GRAPH_RECORD)
        b->records[rank][which] = at + 1;
    else if (n.kind != GRAPH_JOIN && b->records[rank][which])
        n.dep = at + 1 - b->records[rank][which];
    graph_add_node(b->g, rank, &n, NULL, 0);
}

static void push_part(struct graph_part parts[8][PARTS], uint32_t *n, int32_t at, uint8_t op, int32_t peer,
                      uint64_t count)
{
    if (n[at] < PARTS)
        parts[at][n[at]++] = (struct graph_part){.op = op, .datatype = 7, .peer = peer, .count = count};
}

/* One group on every member that takes part. */
static void add_groups(struct builder *b)
{
    uint32_t c = random_below(b->state, b->shape.comms), size = b->g->comms[c].size;
    struct graph_part parts[8][PARTS];
    uint32_t n[8] = {0}, collectives = 0,
             wanted = random_below(b->state, 3) ? 1 : 1 + random_below(b->state, 4);
    if (!size)
        return;
    uint64_t count = 1 + random_below(b->state, 1000);
    for (uint32_t i = 0; i < wanted; i++) {
        int32_t source = (int32_t)random_below(b->state, size), other = (int32_t)random_below(b->state, size);
        uint8_t op = (uint8_t)(1 + random_below(b->state, 14));
        if (op < GRAPH_OP_SEND) {
            collectives++;
            bool rooted = graph_feeds(op) != GRAPH_FEEDS_ALL;
            for (uint32_t m = 0; m < size; m++)
                push_part(parts, n, (int32_t)m, op, rooted ? source : -1, count);
            continue;
        }
        bool drop = b->shape.drop && !random_below(b->state, b->shape.drop);
        push_part(parts, n, source, GRAPH_OP_SEND, other, count);
        if (!drop)
            push_part(parts, n, other, GRAPH_OP_RECV, source, count);
    }
    struct graph_node node = blank(b, GRAPH_COMM);
    for (uint32_t m = 0; m < size; m++) {
        uint32_t rank = (uint32_t)b->g->comms[c].ranks[m];
        if (!b->shape.alike)
            node = blank(b, GRAPH_COMM);
        node.comm = c;
        if (!n[m])
            continue;
        node.ordinal = b->ordinals[rank][c]++;
        /* Members may name sends and receives in any order, collectives not. */
        if (!random_below(b->state, 4) && !collectives)
            for (uint32_t i = 0; i < n[m] / 2; i++) {
                struct graph_part t = parts[m][i];
                parts[m][i] = parts[m][n[m] - 1 - i];
                parts[m][n[m] - 1 - i] = t;
            }
        graph_add_node(b->g, rank, &node, parts[m], n[m]);
    }
}

static void add_steps(struct builder *b, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        if (random_below(b->state, 3)) {
            add_groups(b);
            continue;
        }
        uint32_t rank = random_below(b->state, b->shape.world);
        for (uint32_t k = 1 + random_below(b->state, 4); k > 0; k--)
            add_local(b, rank);
    }
}

/* All ranks' all-reduce, behind all of a rank's streams; every host thread waits for it. */
static void add_meeting(struct builder *b)
{
    struct graph_part part = {.op = GRAPH_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = 1};
    for (uint32_t r = 0; r < b->shape.world; r++) {
        struct graph_node n = blank(b, GRAPH_COMM);
        for (uint32_t s = 0; s < b->shape.streams; s++) {
            graph_add_node(b->g, r, &(struct graph_node){.kind = GRAPH_RECORD, .host = n.host, .stream = s}, NULL, 0);
            graph_add_node(b->g, r, &(struct graph_node){.kind = GRAPH_WAIT, .host = n.host, .stream = n.stream, .dep = 1}, NULL, 0);
        }
        n.ordinal = b->ordinals[r][0]++;
        graph_add_node(b->g, r, &n, &part, 1);
        n = (struct graph_node){.kind = GRAPH_RECORD, .host = n.host, .stream = n.stream};
        graph_add_node(b->g, r, &n, NULL, 0);
        for (uint32_t h = 0; h < b->shape.hosts; h++) {
            n = (struct graph_node){.kind = GRAPH_SYNC, .host = (uint16_t)h, .dep = 1 + h};
            graph_add_node(b->g, r, &n, NULL, 0);
        }
    }
}

static void set_works(struct builder *b)
{
    for (uint32_t r = 0; r < b->shape.world; r++) {
        graph_alloc_works(b->g, r);
        for (uint32_t i = 0; i < b->g->ranks[r].nnodes; i++) {
            b->g->ranks[r].device_work[i] = (float)random_below(b->state, 1000);
            b->g->ranks[r].host_work[i] = (float)random_below(b->state, 300);
        }
    }
}

struct graph *random_graph(uint64_t *state, const struct random_shape *shape)
{
    struct builder b = {.state = state, .g = graph_create(shape->world, 8), .shape = *shape};
    uint32_t bounds[8][16] = {{0}}, count = shape->iterations - shape->rotate;
    add_comms(&b);
    add_steps(&b, shape->setup);
    uint64_t seed = *state;
    for (uint32_t i = 0; i < shape->iterations; i++) {
        *state = seed; /* every iteration makes the same choices */
        for (uint32_t r = 0; r < shape->world; r++)
            bounds[r][i] = b.g->ranks[r].nnodes;
        add_steps(&b, shape->steps);
        if (shape->meets)
            add_meeting(&b);
    }
    for (uint32_t r = 0; r < shape->world; r++)
        bounds[r][shape->iterations] = b.g->ranks[r].nnodes;
    add_steps(&b, shape->teardown);
    for (uint32_t r = 0; r < shape->world; r++) {
        struct graph_rank *rank = &b.g->ranks[r];
        uint32_t shift = shape->rotate ? random_below(state, bounds[r][1] - bounds[r][0] + 1) : 0;
        rank->niterations = count;
        rank->iterations = calloc(count + 1, sizeof *rank->iterations);
        for (uint32_t i = 0; i <= count; i++)
            rank->iterations[i] = bounds[r][i] + shift;
    }
    if (shape->works)
        set_works(&b);
    return b.g;
}
