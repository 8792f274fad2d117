/* emit.c - the nodes of one rank, in issue order. */
#include <stdlib.h>

#include "coll/types.h"
#include "synth/private.h"

void emit_compute(struct emit *e, double ns)
{
    e->pending_ns += ns;
}

static uint32_t node(struct emit *e, struct graph_node *n, const struct graph_part *parts, uint32_t nparts)
{
    if (e->nnodes == e->works_cap) {
        e->works_cap = e->works_cap ? 2 * e->works_cap : 1024;
        e->works = realloc(e->works, e->works_cap * sizeof *e->works);
        if (!e->works)
            abort();
    }
    e->works[e->nnodes] = 0;
    if (n->stream == STREAM_COMPUTE) {
        e->works[e->nnodes] = (float)e->pending_ns;
        e->pending_ns = 0;
    }
    e->used[n->stream] = true;
    if (graph_add_node(e->graph, e->rank, n, parts, nparts))
        abort(); /* every number in it is ours */
    return e->nnodes++;
}

int64_t emit_record(struct emit *e, uint32_t stream)
{
    struct graph_node n = {.kind = GRAPH_RECORD, .stream = stream};
    return node(e, &n, NULL, 0);
}

void emit_wait(struct emit *e, uint32_t stream, int64_t record)
{
    if (record == EMIT_NO_NODE)
        return;
    struct graph_node n = {.kind = GRAPH_WAIT, .stream = stream, .dep = e->nnodes - (uint32_t)record};
    node(e, &n, NULL, 0);
}

static struct graph_part part_of(int op, int32_t peer, uint64_t bytes)
{
    return (struct graph_part){.op = (uint8_t)op, .datatype = COLL_BFLOAT16, .redop = COLL_REDOP_SUM, .peer = peer,
                               .count = (bytes + 1) / 2};
}

static void communicate(struct emit *e, uint32_t stream, enum synth_group group, const struct graph_part *parts, uint32_t n)
{
    struct graph_node at = {.kind = GRAPH_COMM, .stream = stream, .comm = (uint32_t)e->local[group],
                            .ordinal = e->ordinals[group]++};
    node(e, &at, parts, n);
}

void emit_collective(struct emit *e, uint32_t stream, enum synth_group group, int op, uint64_t bytes)
{
    if (e->local[group] < 0)
        return;
    struct graph_part part = part_of(op, op == PRISM_OP_BROADCAST || op == PRISM_OP_REDUCE ? 0 : -1, bytes);
    communicate(e, stream, group, &part, 1);
}

void emit_messages(struct emit *e, uint32_t stream, enum synth_group group, const struct emit_message *m, uint32_t n)
{
    struct graph_part parts[4];
    if (!n)
        return;
    for (uint32_t i = 0; i < n; i++)
        parts[i] = part_of(m[i].send ? PRISM_OP_SEND : PRISM_OP_RECV, (int32_t)m[i].stage, e->job->stage_bytes);
    communicate(e, stream, group, parts, n);
}

/* ---- Layers ---- */

/* What is left of equal shares is taken from the last virtual stage (it has the head), the first (the embedding), the last
 * but one, and so on. */
uint32_t synth_layers(const struct synth_job *job, uint32_t virtual_stage)
{
    uint32_t stages = job->pp * job->virtual_stages, most = (job->layers + stages - 1) / stages;
    uint32_t lack = most * stages - job->layers;
    uint32_t from_end = stages - 1 - virtual_stage;
    uint32_t turn = from_end <= virtual_stage ? 2 * from_end : 2 * virtual_stage + 1;
    return most - (turn < lack);
}

/* A number in [-1, 1) that depends on the three only (splitmix64). */
static double noise(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (double)(x >> 11) / 4503599627370496.0 - 1;
}

static void emit_steps(struct emit *e, const struct synth_steps *steps, uint32_t layer, uint32_t micro_batch)
{
    for (uint32_t i = 0; i < steps->n; i++) {
        const struct synth_step *s = &steps->list[i];
        double ns = s->compute_ns;
        if (s->group == SYNTH_EP && e->job->imbalance > 0)
            ns *= 1 + e->job->imbalance * noise(e->rank, layer, micro_batch);
        emit_compute(e, ns);
        if (s->group != SYNTH_NONE)
            emit_collective(e, STREAM_COMPUTE, s->group, s->op, s->bytes);
    }
}

static bool is_last(const struct synth_job *job, uint32_t virtual_stage)
{
    return virtual_stage + 1 == job->pp * job->virtual_stages;
}

void emit_forward(struct emit *e, uint32_t virtual_stage, uint32_t micro_batch)
{
    for (uint32_t n = synth_layers(e->job, virtual_stage), i = 0; i < n; i++)
        emit_steps(e, &e->job->forward, i, micro_batch);
    if (is_last(e->job, virtual_stage))
        emit_compute(e, e->job->head_ns);
}

void emit_backward(struct emit *e, uint32_t virtual_stage, uint32_t micro_batch, bool last)
{
    if (is_last(e->job, virtual_stage))
        emit_compute(e, 2 * e->job->head_ns);
    for (uint32_t i = synth_layers(e->job, virtual_stage); i-- > 0;) {
        emit_steps(e, &e->job->backward, i, micro_batch);
        if (!last || !e->job->layer_grad_bytes || e->local[SYNTH_DP] < 0)
            continue;
        emit_wait(e, STREAM_GRADS, emit_record(e, STREAM_COMPUTE));
        emit_collective(e, STREAM_GRADS, SYNTH_DP, PRISM_OP_REDUCESCATTER, e->job->layer_grad_bytes);
    }
}
