/* check.c - do the ranks' records fit together: every collective with all its members, every send with its
 * receive. */
#include <stdlib.h>

#include "graph/feeds.h"
#include "graph/graph.h"
#include "graph/validate.h"

struct where { /* one operation of one rank */
    uint32_t rank, node;
    const struct graph_part *part; /* NULL = the rank has none */
};

struct message { /* one side of a send and receive */
    int32_t source, destination;
    uint32_t number;
    struct where where;
};

struct list {
    void *data;
    uint32_t n, cap;
};

struct checking {
    const struct graph *g;
    uint32_t comm; /* global */
    bool truncated;
    struct prism_error *err;
    struct list collectives; /* struct where: of the first member that got so far */
    struct list messages;    /* struct message */
    uint32_t *numbers;       /* sends to and receives from each member so far */
};

static void *append(struct list *l, size_t size)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 256;
        l->data = realloc(l->data, l->cap * size);
        if (!l->data)
            abort();
    }
    return (char *)l->data + size * l->n++;
}

static uint64_t bytes_of(const struct graph_part *p)
{
    return p->count * graph_datatype_size(p->datatype);
}

static bool is_reduction(uint8_t op)
{
    return op == GRAPH_OP_ALLREDUCE || op == GRAPH_OP_REDUCE || op == GRAPH_OP_REDUCESCATTER;
}

/* ---- Collectives ---- */

static const char *difference(const struct graph_part *a, const struct graph_part *b)
{
    if (a->op != b->op)
        return "operation";
    if (a->datatype != b->datatype)
        return "datatype";
    if (is_reduction(a->op) && a->redop != b->redop)
        return "reduction";
    if (graph_feeds(a->op) != GRAPH_FEEDS_ALL && a->peer != b->peer)
        return "root";
    return a->count != b->count ? "count" : NULL;
}

static int differs(const struct checking *c, const char *what, const struct where *a, const struct where *b)
{
    return prism_error_set(
        c->err, PRISM_EXIT_TRACE,
        "communicator %u of the trace: %s differs: "
        "rank %u, node %u has %s (%llu elements, datatype %u, reduction %u, root %d), "
        "rank %u, node %u has %s (%llu elements, datatype %u, reduction %u, root %d); "
        "NCCL would hang or fail here: correct the program, then capture again",
        c->comm, what, a->rank, a->node, graph_op_name(a->part->op), (unsigned long long)a->part->count,
        a->part->datatype, a->part->redop, a->part->peer, b->rank, b->node, graph_op_name(b->part->op),
        (unsigned long long)b->part->count, b->part->datatype, b->part->redop, b->part->peer);
}

static int check_collective(struct checking *c, uint32_t number, struct where w)
{
    if (number == c->collectives.n) {
        *(struct where *)append(&c->collectives, sizeof w) = w;
        return 0;
    }
    const struct where *first = (struct where *)c->collectives.data + number;
    const char *what = difference(first->part, w.part);
    return what ? differs(c, what, first, &w) : 0;
}

static int missing_collective(const struct checking *c, uint32_t rank, uint32_t number)
{
    const struct where *other = (struct where *)c->collectives.data + number;
    return prism_error_set(
        c->err, PRISM_EXIT_TRACE,
        "rank %u did not take part in %s number %u on communicator %u of the trace (rank %u, node %u did); "
        "did it end early? capture again",
        rank, graph_op_name(other->part->op), number, c->comm, other->rank, other->node);
}

/* ---- Members ---- */

static void add_message(struct checking *c, const struct where *w, int32_t self, uint32_t size)
{
    bool send = w->part->op == GRAPH_OP_SEND;
    uint32_t *number = &c->numbers[(uint32_t)w->part->peer + (send ? 0 : size)];
    *(struct message *)append(&c->messages, sizeof(struct message)) =
        (struct message){send ? self : w->part->peer, send ? w->part->peer : self, (*number)++, *w};
}

static int add_member(struct checking *c, uint32_t rank, int32_t self, uint32_t local, uint32_t *collectives)
{
    const struct graph_rank *r = &c->g->ranks[rank];
    uint32_t size = c->g->comms[c->comm].size;
    for (uint32_t i = 0; i < 2 * size; i++)
        c->numbers[i] = 0;
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind != GRAPH_COMM || n->comm != local)
            continue;
        for (uint32_t p = 0; p < n->nparts; p++) {
            struct where w = {rank, i, &r->parts[n->first_part + p]};
            if (graph_feeds(w.part->op) >= GRAPH_FEEDS_SEND)
                add_message(c, &w, self, size);
            else if (check_collective(c, (*collectives)++, w))
                return -1;
        }
    }
    return 0;
}

static uint32_t local_number(const struct graph_rank *r, uint32_t global)
{
    for (uint32_t i = 0; i < r->ncomms; i++)
        if (r->comms[i].global == (int32_t)global)
            return i;
    return UINT32_MAX; /* no node has it */
}

/* ---- Sends and receives ---- */

static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->destination != y->destination)
        return x->destination < y->destination ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->where.part->op > y->where.part->op) - (x->where.part->op < y->where.part->op);
}

static int alone(const struct checking *c, const struct message *m)
{
    const int32_t *ranks = c->g->comms[c->comm].ranks;
    bool send = m->where.part->op == GRAPH_OP_SEND;
    return prism_error_set(
        c->err, PRISM_EXIT_TRACE,
        "rank %u, node %u: %s number %u %s rank %d on communicator %u of the trace has no %s there; did "
        "that rank end early? capture again",
        m->where.rank, m->where.node, graph_op_name(m->where.part->op), m->number, send ? "to" : "from",
        ranks[send ? m->destination : m->source], c->comm, send ? "receive" : "send");
}

static int check_messages(const struct checking *c)
{
    const struct message *m = c->messages.data;
    for (uint32_t i = 0; i < c->messages.n;) {
        const struct message *send = &m[i], *receive = &m[i + 1];
        bool pair = i + 1 < c->messages.n && send->source == receive->source &&
                    send->destination == receive->destination && send->number == receive->number;
        if (!pair && !c->truncated)
            return alone(c, send);
        if (pair && bytes_of(send->where.part) != bytes_of(receive->where.part))
            return differs(c, "size of a send and its receive", &send->where, &receive->where);
        i += pair ? 2 : 1;
    }
    return 0;
}

static int check_comm(struct checking *c, uint32_t *collectives)
{
    const struct graph_comm *comm = &c->g->comms[c->comm];
    c->collectives.n = c->messages.n = 0;
    for (uint32_t i = 0; i < comm->size; i++) {
        uint32_t rank = (uint32_t)comm->ranks[i];
        collectives[i] = 0;
        if (add_member(c, rank, (int32_t)i, local_number(&c->g->ranks[rank], c->comm), &collectives[i]))
            return -1;
    }
    for (uint32_t i = 0; i < comm->size && !c->truncated; i++)
        if (collectives[i] < c->collectives.n)
            return missing_collective(c, (uint32_t)comm->ranks[i], collectives[i]);
    if (c->messages.n)
        qsort(c->messages.data, c->messages.n, sizeof(struct message), compare_messages);
    return check_messages(c);
}

static int check_all(const struct graph *g, bool truncated, struct prism_error *err)
{
    if (graph_validate(g, err))
        return -1;
    struct checking c = {.g = g, .truncated = truncated, .err = err};
    uint32_t most = 1;
    for (uint32_t i = 0; i < g->ncomms; i++)
        most = g->comms[i].size > most ? g->comms[i].size : most;
    uint32_t *collectives = calloc(most, sizeof *collectives);
    c.numbers = calloc(2 * (size_t)most, sizeof *c.numbers);
    if (!collectives || !c.numbers)
        abort();
    int rc = 0;
    for (c.comm = 0; c.comm < g->ncomms && !rc; c.comm++)
        rc = check_comm(&c, collectives);
    free(collectives);
    free(c.numbers);
    free(c.collectives.data);
    free(c.messages.data);
    return rc;
}

int graph_check(const struct graph *g, struct prism_error *err)
{
    return check_all(g, false, err);
}

int graph_check_truncated(const struct graph *g, struct prism_error *err)
{
    return check_all(g, true, err);
}
