/* diagnose_match.c - what does not fit together: collectives of a communicator, both sides of a message. */
#include <stdlib.h>

#include "coll/types.h"
#include "common/check.h"
#include "prismd/diagnose/diagnose_private.h"

/* ---- Collectives ---- */

struct call {
    uint32_t node;
    const struct graph_part *part; /* NULL: the rank has no such call */
};

/* The number'th collective of the rank on its communicator local. */
static struct call call_of(const struct graph *g, uint32_t rank, uint32_t local, uint32_t number)
{
    const struct graph_rank *r = &g->ranks[rank];
    for (uint32_t i = 0; local != UINT32_MAX && i < r->nnodes; i++) {
        const struct graph_node *n = &r->nodes[i];
        for (uint32_t k = 0; n->kind == GRAPH_COMM && n->comm == local && k < n->nparts; k++)
            if (is_collective(&r->parts[n->first_part + k]) && !number--)
                return (struct call){i, &r->parts[n->first_part + k]};
    }
    return (struct call){NO_NODE, NULL};
}

static const char *difference(const struct graph_part *a, const struct graph_part *b)
{
    if (a->op != b->op)
        return "operation";
    if (a->datatype != b->datatype)
        return "datatype";
    if (coll_op_is_reduction(a->op) && a->redop != b->redop)
        return "reduction";
    if (coll_op_is_rooted(a->op) && a->peer != b->peer)
        return "root";
    return a->count != b->count ? "count" : NULL;
}

struct difference_at {
    uint32_t number; /* of the first collective in which members differ; UINT32_MAX: none */
    uint32_t member;
};

/* Compare every member's calls with those of the members before; only the earliest difference counts. */
static struct difference_at first_difference(const struct graph *g, int32_t global)
{
    const struct graph_comm *comm = &g->comms[global];
    const struct graph_part **calls = NULL;
    uint32_t n = 0, cap = 0;
    struct difference_at at = {UINT32_MAX, 0};
    for (uint32_t m = 0; m < comm->size; m++) {
        uint32_t rank = (uint32_t)comm->ranks[m], local = diagnose_local(g, rank, global), number = 0;
        const struct graph_rank *r = &g->ranks[rank];
        for (uint32_t i = 0; local != UINT32_MAX && i < r->nnodes && number < at.number; i++) {
            const struct graph_node *node = &r->nodes[i];
            for (uint32_t k = 0; node->kind == GRAPH_COMM && node->comm == local && k < node->nparts; k++) {
                const struct graph_part *part = &r->parts[node->first_part + k];
                if (!is_collective(part) || number >= at.number)
                    continue;
                if (number == n) {
                    cap = n == cap ? (cap ? 2 * cap : 256) : cap;
                    calls = check(realloc(calls, cap * sizeof *calls));
                    calls[n++] = part;
                } else if (difference(calls[number], part)) {
                    at = (struct difference_at){number, m};
                }
                number++;
            }
        }
    }
    free(calls);
    return at;
}

static bool equal_calls(const struct call *a, const struct call *b)
{
    return a->part && b->part && !difference(a->part, b->part);
}

/* Members that call what this one calls. */
static uint32_t alike(const struct call *calls, uint32_t n, uint32_t member, const int32_t *ranks, uint32_t *out)
{
    uint32_t count = 0;
    for (uint32_t m = 0; m < n; m++)
        if (equal_calls(&calls[m], &calls[member]))
            out[count++] = (uint32_t)ranks[m];
    return count;
}

static uint32_t most_common(const struct call *calls, uint32_t n, const int32_t *ranks, uint32_t *list)
{
    uint32_t best = 0, most = 0;
    for (uint32_t m = 0; m < n && most <= n / 2; m++) {
        uint32_t count = calls[m].part ? alike(calls, n, m, ranks, list) : 0;
        if (count > most) {
            most = count;
            best = m;
        }
    }
    return best;
}

/* One finding a communicator: what most call, and who of the others calls what. */
static void tell_difference(struct diagnosing *x, int32_t global, struct difference_at at)
{
    const struct graph *g = x->g;
    const struct graph_comm *comm = &g->comms[global];
    struct call *calls = check(calloc(comm->size, sizeof *calls));
    uint32_t *list = check(calloc(comm->size, sizeof *list)), odd = at.member;
    for (uint32_t m = 0; m < comm->size; m++)
        calls[m] = call_of(g, (uint32_t)comm->ranks[m], diagnose_local(g, (uint32_t)comm->ranks[m], global), at.number);
    uint32_t usual = most_common(calls, comm->size, comm->ranks, list);
    for (uint32_t m = 0; m < comm->size; m++)
        if (calls[m].part && !equal_calls(&calls[m], &calls[usual])) {
            odd = m;
            break;
        }
    uint32_t rank = (uint32_t)comm->ranks[odd], local = diagnose_local(g, rank, global);
    uint32_t other = (uint32_t)comm->ranks[usual];
    struct call next = call_of(g, rank, local, at.number + 1), theirs_next = call_of(g, other, diagnose_local(g, other, global), at.number + 1);
    bool order = equal_calls(&next, &calls[usual]) && equal_calls(&theirs_next, &calls[odd]);
    words where, name, theirs, its, most, few;
    words_comm(where, g, global);
    words_place(name, g, rank, calls[odd].node);
    words_part(theirs, g, global, calls[usual].part);
    words_part(its, g, global, calls[odd].part);
    words_ranks(most, list, alike(calls, comm->size, usual, comm->ranks, list));
    words_ranks(few, list, alike(calls, comm->size, odd, comm->ranks, list));
    finding_add(x, order ? FINDING_ORDER : FINDING_MISMATCH, rank,
                "%s, its collective %u: %s at rank %u's %s: %s call%s %s, but %s call%s %s%s", where, at.number,
                order ? "another order" : difference(calls[usual].part, calls[odd].part), rank, name, most,
                most[4] == ' ' ? "s" : "", theirs, few, few[4] == ' ' ? "s" : "", its,
                order ? ", and what the others call only after it" : "");
    free(calls);
    free(list);
}

/* ---- Messages ---- */

struct message {
    int32_t source, destination;
    uint32_t number, rank, node;
    const struct graph_part *part;
};

struct messages {
    struct message *list; /* owned; a send and its receive stand side by side */
    uint32_t n, cap;
};

static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->destination != y->destination)
        return x->destination < y->destination ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->part->op > y->part->op) - (x->part->op < y->part->op);
}

static void add_message(struct messages *list, struct message m)
{
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 256;
        list->list = check(realloc(list->list, list->cap * sizeof *list->list));
    }
    list->list[list->n++] = m;
}

static void collect_messages(const struct graph *g, int32_t global, struct messages *list)
{
    const struct graph_comm *comm = &g->comms[global];
    uint32_t *numbers = check(calloc(2 * (size_t)comm->size + 1, sizeof *numbers));
    list->n = 0;
    for (uint32_t m = 0; m < comm->size; m++) {
        uint32_t rank = (uint32_t)comm->ranks[m], local = diagnose_local(g, rank, global);
        const struct graph_rank *r = &g->ranks[rank];
        for (uint32_t i = 0; i < 2 * comm->size; i++)
            numbers[i] = 0;
        for (uint32_t i = 0; local != UINT32_MAX && i < r->nnodes; i++)
            for (uint32_t k = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == local && k < r->nodes[i].nparts; k++) {
                const struct graph_part *p = &r->parts[r->nodes[i].first_part + k];
                bool send = p->op == GRAPH_OP_SEND;
                if (!is_collective(p))
                    add_message(list, (struct message){send ? (int32_t)m : p->peer, send ? p->peer : (int32_t)m,
                                                       numbers[(uint32_t)p->peer + (send ? 0 : comm->size)]++, rank, i, p});
            }
    }
    free(numbers);
    if (list->n)
        qsort(list->list, list->n, sizeof *list->list, compare_messages);
}

static uint64_t bytes_of(const struct graph_part *p)
{
    return p->count * coll_datatype_size(p->datatype);
}

static bool is_pair(const struct messages *m, uint32_t i)
{
    const struct message *a = &m->list[i], *b = a + 1;
    return i + 1 < m->n && a->source == b->source && a->destination == b->destination && a->number == b->number;
}

static bool tell_size(struct diagnosing *x, int32_t global, const struct messages *m, uint32_t i)
{
    const struct message *send = &m->list[i], *receive = send + 1;
    words its, theirs, at, there, comm;
    if (bytes_of(send->part) == bytes_of(receive->part))
        return false;
    finding_add(x, FINDING_SIZE, receive->rank, "rank %u (%s) calls %s, rank %u (%s) %s: message %u between the two on %s has two sizes",
                send->rank, words_place(at, x->g, send->rank, send->node), words_part(its, x->g, global, send->part), receive->rank,
                words_place(there, x->g, receive->rank, receive->node), words_part(theirs, x->g, global, receive->part),
                send->number, words_comm(comm, x->g, global));
    return true;
}

void diagnose_match(struct diagnosing *x)
{
    struct messages messages = {0};
    for (int32_t c = 0; c < (int32_t)x->g->ncomms; c++) {
        struct difference_at at = first_difference(x->g, c);
        if (at.number != UINT32_MAX)
            tell_difference(x, c, at);
        collect_messages(x->g, c, &messages);
        for (uint32_t i = 0; i < messages.n; i += is_pair(&messages, i) ? 2 : 1)
            if (is_pair(&messages, i) && tell_size(x, c, &messages, i))
                break;
    }
    free(messages.list);
}

/* Those left over between two ranks come last, and all from one side: one finding. */
static uint32_t tell_alone(struct diagnosing *x, int32_t global, const struct messages *m, uint32_t i)
{
    const struct message *first = &m->list[i];
    words what, at, comm, apart;
    uint32_t n = 1;
    while (i + n < m->n && m->list[i + n].source == first->source && m->list[i + n].destination == first->destination)
        n++;
    bool send = first->part->op == GRAPH_OP_SEND;
    uint32_t other = (uint32_t)x->g->comms[global].ranks[send ? first->destination : first->source];
    finding_add(x, FINDING_UNMATCHED, first->rank, "rank %u (%s) calls %s on %s, and the other side has no call that fits%s%s", first->rank,
                words_place(at, x->g, first->rank, first->node), words_part(what, x->g, global, first->part),
                words_comm(comm, x->g, global), n > 1 ? ", nor for those after it" : "",
                words_apart(apart, x->g, global, first->rank, other, first->part));
    return n;
}

void diagnose_unmatched(struct diagnosing *x)
{
    struct messages messages = {0};
    for (int32_t c = 0; c < (int32_t)x->g->ncomms; c++) {
        collect_messages(x->g, c, &messages);
        for (uint32_t i = 0; i < messages.n;)
            i += is_pair(&messages, i) ? 2 : tell_alone(x, c, &messages, i);
    }
    free(messages.list);
}
