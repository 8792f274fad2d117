#include "prismd/diagnose/diagnose_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"

#define WAITS_TRIED 32

const char *finding_name(enum finding_kind kind)
{
    static const char *const names[FINDINGS] = {"damaged", "order",     "mismatch", "size", "missing",
                                                "ring",    "unmatched", "buffering"};
    return names[kind < FINDINGS ? kind : 0];
}

void finding_add(struct diagnosing *x, enum finding_kind kind, uint32_t rank, const char *fmt, ...)
{
    if (x->out->n == DIAGNOSE_MOST) {
        x->out->more++;
        return;
    }
    va_list ap;
    struct finding *f = &x->out->list[x->out->n++];
    f->kind = kind;
    f->rank = rank;
    va_start(ap, fmt);
    if (vasprintf(&f->text, fmt, ap) < 0)
        abort();
    va_end(ap);
}

void diagnosis_clear(struct diagnosis *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        free(d->list[i].text);
    *d = (struct diagnosis){.n = 0};
}

/* ---- Words ---- */

const char *words_comm(words out, const struct graph *g, int32_t global)
{
    words ranks;
    words_ranks(ranks, (const uint32_t *)g->comms[global].ranks, g->comms[global].size);
    out[0] = 0;
    words_put(out, "communicator %d of %s", global, ranks);
    return out;
}

const char *words_part(words out, const struct graph *g, int32_t global, const struct graph_part *p)
{
    out[0] = 0;
    words_put(out, "%s of %llu x %s", prism_op_name(p->op), (unsigned long long)p->count,
             coll_datatype_name(p->datatype));
    bool known = p->peer >= 0 && (uint32_t)p->peer < g->comms[global].size;
    if (coll_op_is_reduction(p->op) && p->redop != COLL_REDOP_SUM)
        words_put(out, " (%s)", coll_redop_name(p->redop));
    if (coll_op_is_p2p(p->op) && known)
        words_put(out, " %s rank %d", p->op == PRISM_OP_SEND ? "to" : "from", g->comms[global].ranks[p->peer]);
    else if (coll_op_is_rooted(p->op) && known)
        words_put(out, ", root rank %d", g->comms[global].ranks[p->peer]);
    return out;
}

/* Messages with one peer in one direction are one a micro-batch: the number of the latest tells where we are. */
static uint32_t micro_batch(const struct graph_rank *r, uint32_t from, uint32_t node)
{
    const struct graph_node *latest = NULL;
    uint32_t count = 0;
    for (uint32_t i = from; i <= node; i++)
        if (r->nodes[i].kind == GRAPH_COMM && !is_collective(&r->parts[r->nodes[i].first_part]))
            latest = &r->nodes[i];
    if (!latest)
        return 0;
    const struct graph_part *that = &r->parts[latest->first_part];
    for (uint32_t i = from; i <= node; i++)
        for (uint32_t k = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == latest->comm && k < r->nodes[i].nparts; k++) {
            const struct graph_part *p = &r->parts[r->nodes[i].first_part + k];
            count += p->op == that->op && p->peer == that->peer;
        }
    return count;
}

/* Of a graph that stops in the middle: whole iterations before the node, and where the last of them ends. 0: not to be told,
 * as while the first two are under way. What goes wrong may not look like an iteration: so the count is taken at the latest
 * wait of the host at which there is one. */
static uint32_t count_whole(const struct graph *g, uint32_t rank, uint32_t node, uint32_t *end)
{
    uint32_t high = node, whole = graph_count_iterations(g, rank, high), low = 0;
    for (uint32_t tries = 0; !whole && high > 0 && tries < WAITS_TRIED; high--)
        if (g->ranks[rank].nodes[high - 1].kind == GRAPH_SYNC) {
            whole = graph_count_iterations(g, rank, high);
            tries++;
            if (whole)
                break;
        }
    while (whole && low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (graph_count_iterations(g, rank, middle) < whole)
            low = middle + 1;
        else
            high = middle;
    }
    *end = low;
    return whole;
}

const char *words_place(words out, const struct graph *g, uint32_t rank, uint32_t node)
{
    const struct graph_rank *r = &g->ranks[rank];
    uint32_t iteration = 0, from = 0;
    out[0] = 0;
    while (iteration < r->niterations && r->iterations[iteration + 1] <= node)
        iteration++;
    if (r->niterations) {
        from = node < r->iterations[0] ? 0 : r->iterations[iteration];
        if (node < r->iterations[0])
            words_put(out, "set-up, ");
        else
            words_put(out, "iteration %u, ", iteration + 1);
    } else if ((iteration = count_whole(g, rank, node, &from)) > 0) {
        words_put(out, "iteration %u, ", iteration + 1);
    }
    uint32_t batch = r->niterations || iteration ? micro_batch(r, from, node) : 0;
    if (batch)
        words_put(out, "micro-batch %u, ", batch);
    words_put(out, "node %u", node);
    return out;
}

uint32_t diagnose_local(const struct graph *g, uint32_t rank, int32_t global)
{
    const struct graph_rank *r = &g->ranks[rank];
    for (uint32_t c = 0; c < r->ncomms; c++)
        if (r->comms[c].global == global)
            return c;
    return UINT32_MAX;
}

static uint32_t count_between(const struct graph *g, uint32_t rank, int32_t global, const struct graph_part *wanted, int32_t peer,
                              uint32_t from, uint32_t to)
{
    const struct graph_rank *r = &g->ranks[rank];
    uint32_t local = diagnose_local(g, rank, global), count = 0;
    for (uint32_t i = from; i < to; i++)
        for (uint32_t k = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == local && k < r->nodes[i].nparts; k++)
            count += is_like(&r->parts[r->nodes[i].first_part + k], wanted, peer);
    return count;
}

/* Iteration i of a rank; i = -1: what is in front of the first. */
static uint32_t count_in(const struct graph *g, uint32_t rank, int32_t global, const struct graph_part *wanted, int32_t peer, int64_t i)
{
    const struct graph_rank *r = &g->ranks[rank];
    return count_between(g, rank, global, wanted, peer, i < 0 ? 0 : r->iterations[i], r->iterations[i + 1]);
}

/* Calls match by their order, so a missing one shows at the end: the iteration in which the numbers part is where it is missing. */
const char *words_apart(words out, const struct graph *g, int32_t global, uint32_t a, uint32_t b, const struct graph_part *part)
{
    const struct graph_rank *x = &g->ranks[a], *y = &g->ranks[b];
    uint32_t local = diagnose_local(g, a, global), n = x->niterations < y->niterations ? x->niterations : y->niterations;
    struct graph_part other = part ? other_side(part) : (struct graph_part){.op = 0};
    out[0] = 0;
    for (int64_t i = -1; n && i < (int64_t)n; i++) {
        uint32_t its = count_in(g, a, global, part, part ? part->peer : -1, i);
        uint32_t theirs = count_in(g, b, global, part ? &other : NULL, x->comms[local].rank, i);
        if (its == theirs)
            continue;
        words_put(out, part ? "; such messages " : "; collectives on it ");
        words_put(out, i < 0 ? "in set-up: " : "in iteration %u: ", (uint32_t)i + 1);
        words_put(out, "%u %s by rank %u, %u %s by rank %u", its, part ? prism_op_name(part->op) : "calls", a, theirs,
                  part ? prism_op_name(other.op) : "calls", b);
        return out;
    }
    return out;
}

/* ---- The three questions ---- */

void diagnose(const struct graph *g, const struct diagnose_options *options, struct diagnosis *out)
{
    struct diagnosing x = {g, options, out};
    struct prism_error err = {0};
    *out = (struct diagnosis){.n = 0};
    /* Playing looks at every index first; only then may anything else read the graph. */
    struct diagnosis waits = {.n = 0};
    x.out = &waits;
    bool sound = diagnose_waits(&x);
    x.out = out;
    if (!sound) {
        graph_check_truncated(g, &err);
        finding_add(&x, FINDING_DAMAGED, 0, "%s", err.code ? err.text : "the graph cannot be played");
        diagnosis_clear(&waits);
        return;
    }
    diagnose_match(&x);
    if (!waits.waiting && !options->ended_early) /* before what hangs for want of buffers, which may come of it */
        diagnose_unmatched(&x);
    out->waiting = waits.waiting;
    out->more += waits.more;
    for (uint32_t i = 0; i < waits.n; i++) {
        finding_add(&x, waits.list[i].kind, waits.list[i].rank, "%s", waits.list[i].text);
        free(waits.list[i].text);
    }
}
