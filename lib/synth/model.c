/* model.c - a transformer's steps (docs/synth.md, "From a model", has the formulas and their sources). */
#include <math.h>
#include <stdlib.h>

#include "coll/types.h"
#include "synth/private.h"

#define HALF 2.0 /* bytes of a bf16 value */

void synth_steps_add(struct synth_steps *steps, struct synth_step step)
{
    steps->list = realloc(steps->list, (steps->n + 1u) * sizeof *steps->list);
    if (!steps->list)
        abort();
    steps->list[steps->n++] = step;
}

struct sizes {
    const struct synth_model *m;
    double tp, cp, ep;
    double tokens;                         /* of a micro-batch at one context-parallel rank */
    double q, kv;                          /* widths of all query heads, all key heads */
    double project_ns, attend_ns, mlp_ns, router_ns; /* forward, of a layer */
    uint64_t hidden_bytes;                 /* activations of all tokens */
    uint64_t kv_bytes, pair_bytes;
};

static double flops_ns(const struct sizes *s, double flops)
{
    return flops / s->tp / s->m->flops * 1e9;
}

static struct sizes measure(const struct synth_job *j, const struct synth_model *m)
{
    struct sizes s = {.m = m, .tp = j->tp, .cp = j->cp, .ep = j->ep, .tokens = m->micro_batch * m->sequence / j->cp,
                      .q = m->heads * m->head_dim, .kv = m->kv_heads * m->head_dim};
    double t = s.tokens, h = m->hidden, k = m->experts > 0 ? m->top_k : 1;
    s.project_ns = flops_ns(&s, 2 * t * h * (s.q + 2 * s.kv));
    s.attend_ns = flops_ns(&s, 2 * t * m->sequence * s.q + 2 * t * s.q * h);
    s.mlp_ns = flops_ns(&s, 2 * t * 3 * h * m->ffn * k);
    s.router_ns = flops_ns(&s, 2 * t * h * m->experts);
    s.hidden_bytes = (uint64_t)(t * h * HALF);
    s.kv_bytes = (uint64_t)(t * 2 * s.kv * HALF / s.tp);
    s.pair_bytes = (uint64_t)ceil(t / s.tp * k * h * HALF / s.ep);
    return s;
}

static void add(struct synth_steps *steps, double ns, enum synth_group group, int op, uint64_t bytes)
{
    synth_steps_add(steps, (struct synth_step){ns, op, group, bytes});
}

/* Into a tensor-parallel block: with sequence parallelism all ranks' tokens are gathered. */
static void enter_block(const struct sizes *s, struct synth_steps *steps, double ns)
{
    if (s->m->sequence_parallel)
        add(steps, ns, SYNTH_TP, PRISM_OP_ALLGATHER, s->hidden_bytes / (uint64_t)s->tp);
    else
        add(steps, ns, SYNTH_NONE, 0, 0);
}

static void leave_block(const struct sizes *s, struct synth_steps *steps, double ns)
{
    if (s->m->sequence_parallel)
        add(steps, ns, SYNTH_TP, PRISM_OP_REDUCESCATTER, s->hidden_bytes / (uint64_t)s->tp);
    else
        add(steps, ns, SYNTH_TP, PRISM_OP_ALLREDUCE, s->hidden_bytes);
}

static void forward_layer(const struct sizes *s, struct synth_steps *steps)
{
    enter_block(s, steps, 0);
    add(steps, s->project_ns, SYNTH_CP, PRISM_OP_ALLGATHER, s->kv_bytes);
    leave_block(s, steps, s->attend_ns);
    if (s->m->experts > 0) {
        add(steps, s->router_ns, SYNTH_EP, PRISM_OP_ALLTOALL, s->pair_bytes);
        add(steps, s->mlp_ns, SYNTH_EP, PRISM_OP_ALLTOALL, s->pair_bytes);
        return;
    }
    enter_block(s, steps, 0);
    leave_block(s, steps, s->mlp_ns);
}

/* The gradient of a gather is a scattered sum and the other way round; each product has two gradients. */
static void backward_layer(const struct sizes *s, struct synth_steps *steps)
{
    if (s->m->experts > 0) {
        add(steps, 0, SYNTH_EP, PRISM_OP_ALLTOALL, s->pair_bytes);
        add(steps, 2 * s->mlp_ns, SYNTH_EP, PRISM_OP_ALLTOALL, s->pair_bytes);
        enter_block(s, steps, 2 * s->router_ns);
    } else {
        enter_block(s, steps, 0);
        leave_block(s, steps, 2 * s->mlp_ns);
        enter_block(s, steps, 0);
    }
    add(steps, 2 * s->attend_ns, SYNTH_CP, PRISM_OP_REDUCESCATTER, s->kv_bytes);
    leave_block(s, steps, 2 * s->project_ns);
}

/* Gradients are summed and scattered, each rank updates its share (16 bytes a value read and written twice), and the new
 * weights are gathered: the distributed optimizer. */
static void end_of_weights(struct synth_job *j, const struct synth_model *m, enum synth_group group, double values, double ranks,
                           bool reduced)
{
    uint64_t part = (uint64_t)ceil(values * HALF / ranks);
    if (values <= 0)
        return;
    if (!reduced)
        add(&j->end, 0, group, PRISM_OP_REDUCESCATTER, part);
    add(&j->end, values / ranks * 32 / m->memory_bandwidth * 1e9, group, PRISM_OP_ALLGATHER, part);
}

void synth_from_model(struct synth_job *j, const struct synth_model *m)
{
    struct sizes s = measure(j, m);
    double h = m->hidden, attention = h * (s.q + 2 * s.kv) + s.q * h, mlp = 3 * h * m->ffn;
    double dense = (attention + (m->experts > 0 ? h * m->experts : mlp)) / s.tp;
    double experts = m->experts > 0 ? m->experts / s.ep * mlp / s.tp : 0;
    double layers = ceil((double)j->layers / j->pp), replicas = (double)j->dp * j->cp;
    forward_layer(&s, &j->forward);
    backward_layer(&s, &j->backward);
    j->stage_bytes = m->sequence_parallel ? s.hidden_bytes / j->tp : s.hidden_bytes;
    j->head_ns = flops_ns(&s, 2 * s.tokens * h * m->vocab);
    if (m->overlap_grads)
        j->layer_grad_bytes = (uint64_t)ceil(dense * HALF / replicas);
    end_of_weights(j, m, SYNTH_DP, dense * layers, replicas, m->overlap_grads);
    end_of_weights(j, m, SYNTH_EDP, experts * layers, replicas / s.ep, false);
    add(&j->end, 0, SYNTH_WORLD, PRISM_OP_ALLREDUCE, 8); /* the gradients' norm */
}
