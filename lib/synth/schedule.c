/* schedule.c - the order of micro-batches at a stage (synth.h, section 2). */
#include "coll/types.h"
#include "synth/private.h"

/* ---- 1F1B ---- */

struct asked { /* what a stage exchanges at one moment */
    bool send_forward, receive_forward, send_backward, receive_backward;
};

static void exchange(struct emit *e, struct asked a)
{
    struct emit_message m[4];
    uint32_t n = 0, s = e->stage;
    bool first = s == 0, last = s + 1 == e->job->pp;
    if (a.send_forward && !last)
        m[n++] = (struct emit_message){true, s + 1};
    if (a.receive_forward && !first)
        m[n++] = (struct emit_message){false, s - 1};
    if (a.send_backward && !first)
        m[n++] = (struct emit_message){true, s - 1};
    if (a.receive_backward && !last)
        m[n++] = (struct emit_message){false, s + 1};
    emit_messages(e, STREAM_COMPUTE, SYNTH_PP, m, n);
}

void schedule_1f1b(struct emit *e)
{
    uint32_t all = e->job->micro_batches, ahead = e->job->pp - e->stage - 1;
    uint32_t warm = ahead < all ? ahead : all, steady = all - warm;
    for (uint32_t i = 0; i < warm; i++) {
        exchange(e, (struct asked){.receive_forward = true});
        emit_forward(e, e->stage, i);
        exchange(e, (struct asked){.send_forward = true});
    }
    if (steady)
        exchange(e, (struct asked){.receive_forward = true});
    for (uint32_t i = 0; i < steady; i++) {
        emit_forward(e, e->stage, warm + i);
        exchange(e, (struct asked){.send_forward = true, .receive_backward = true});
        emit_backward(e, e->stage, i, i + 1 == all);
        exchange(e, (struct asked){.send_backward = true, .receive_forward = i + 1 < steady});
    }
    for (uint32_t i = steady; i < all; i++) {
        exchange(e, (struct asked){.receive_backward = true});
        emit_backward(e, e->stage, i, i + 1 == all);
        exchange(e, (struct asked){.send_backward = true});
    }
}

/* ---- Interleaved 1F1B ---- */

/* Micro-batches go through the chunks in rounds of PP. */
struct turn {
    uint32_t chunk, micro_batch;
};

static struct turn turn_of(const struct synth_job *job, uint32_t k, bool forward)
{
    uint32_t round = job->pp * job->virtual_stages, chunk = k % round / job->pp;
    return (struct turn){forward ? chunk : job->virtual_stages - 1 - chunk, k / round * job->pp + k % job->pp};
}

struct interleaved {
    struct emit *e;
    int64_t ends[2]; /* records behind the step before and the one before that */
};

/* Have the message that a step needs: asked for when the step before began. */
static void receive(struct interleaved *x, uint32_t stream, enum synth_group group, uint32_t from)
{
    struct emit_message m = {false, from};
    emit_wait(x->e, stream, x->ends[1]);
    emit_messages(x->e, stream, group, &m, 1);
    emit_wait(x->e, STREAM_COMPUTE, emit_record(x->e, stream));
}

static void step_ended(struct interleaved *x, bool send, uint32_t stream, enum synth_group group, uint32_t to)
{
    int64_t end = emit_record(x->e, STREAM_COMPUTE);
    x->ends[1] = x->ends[0];
    x->ends[0] = end;
    if (!send)
        return;
    struct emit_message m = {true, to};
    emit_wait(x->e, stream, end);
    emit_messages(x->e, stream, group, &m, 1);
}

static void forward(struct interleaved *x, uint32_t k)
{
    const struct synth_job *job = x->e->job;
    uint32_t pp = job->pp, s = x->e->stage, before = (s + pp - 1) % pp, after = (s + 1) % pp;
    struct turn t = turn_of(job, k, true);
    uint32_t v = t.chunk * pp + s;
    if (v > 0)
        receive(x, STREAM_RECV, SYNTH_PP, before);
    emit_forward(x->e, v, t.micro_batch);
    step_ended(x, v + 1 < pp * job->virtual_stages, STREAM_SEND, SYNTH_PP, after);
}

static void backward(struct interleaved *x, uint32_t k)
{
    const struct synth_job *job = x->e->job;
    uint32_t pp = job->pp, s = x->e->stage, before = (s + pp - 1) % pp, after = (s + 1) % pp;
    struct turn t = turn_of(job, k, false);
    uint32_t v = t.chunk * pp + s;
    if (v + 1 < pp * job->virtual_stages)
        receive(x, STREAM_RECV_BACK, SYNTH_PP_BACK, after);
    emit_backward(x->e, v, t.micro_batch, t.micro_batch + 1 == job->micro_batches);
    step_ended(x, v > 0, STREAM_SEND_BACK, SYNTH_PP_BACK, before);
}

void schedule_interleaved(struct emit *e)
{
    const struct synth_job *job = e->job;
    struct interleaved x = {e, {EMIT_NO_NODE, EMIT_NO_NODE}};
    uint32_t all = job->micro_batches * job->virtual_stages;
    uint32_t ahead = (job->pp - e->stage - 1) * 2 + (job->virtual_stages - 1) * job->pp;
    uint32_t warm = ahead < all ? ahead : all;
    for (uint32_t k = 0; k < warm; k++)
        forward(&x, k);
    for (uint32_t k = warm; k < all; k++) {
        forward(&x, k);
        backward(&x, k - warm);
    }
    for (uint32_t k = all - warm; k < all; k++)
        backward(&x, k);
}
