/* pipeline.c - the 1F1B schedule (Narayanan et al. 2021, section 2.2): a stage runs a few forward passes
 * ahead, then one forward and one backward in turn, then the backward passes that are left.
 *
 * The receive for a step is posted before the step that precedes it is enqueued. Each direction of an edge
 * has a stream and a communicator of its own, so no transfer waits behind one that cannot complete yet.
 */
#include "trainer.h"

struct step {
    bool forward;
    int micro_batch;
};

/* Step i of the stage's 2 * micro_batches. */
static struct step step_at(const struct trainer *t, int i)
{
    int count = (int)t->options->micro_batches, warm_up = t->layout.pp - 1 - t->layout.pp_rank;
    warm_up = warm_up < count ? warm_up : count;
    if (i < warm_up)
        return (struct step){true, i};
    if (i >= 2 * count - warm_up)
        return (struct step){false, i - count};
    int pair = (i - warm_up) / 2;
    return (i - warm_up) % 2 ? (struct step){false, pair} : (struct step){true, warm_up + pair};
}

static cudaEvent_t *make_events(int count)
{
    cudaEvent_t *events = resource_host((size_t)count, sizeof *events);
    for (int i = 0; i < count; i++)
        events[i] = resource_event();
    return events;
}

void pipeline_create(struct trainer *t)
{
    struct events *e = &t->events;
    e->input_ready = make_events(t->model.inputs_count);
    e->input_free = make_events(t->model.inputs_count);
    e->output_ready = make_events(t->model.in_flight);
    e->output_free = make_events(t->model.in_flight);
    for (int i = 0; i < GRADIENT_SLOTS; i++) {
        e->gradient_ready[i] = resource_event();
        e->gradient_done[i] = resource_event();
        e->gradient_free[i] = resource_event();
    }
    if (!trainer_is_first_stage(t)) {
        t->streams.receive_forward = resource_stream();
        t->streams.send_backward = resource_stream();
    }
    if (!trainer_is_last_stage(t)) {
        t->streams.receive_backward = resource_stream();
        t->streams.send_forward = resource_stream();
    }
}

static size_t values_of(const struct trainer *t, int micro_batch)
{
    return (size_t)model_rows(t, micro_batch) * (size_t)t->options->hidden;
}

static void post_receive_input(struct trainer *t, int micro_batch)
{
    cudaStream_t stream = t->streams.receive_forward;
    int slot = micro_batch % t->model.inputs_count;
    if (trainer_is_first_stage(t))
        return;
    CUDA_CHECK(cudaStreamWaitEvent(stream, t->events.input_free[slot], 0));
    NCCL_CHECK(ncclRecv(t->model.inputs[slot], values_of(t, micro_batch), NCCL_REAL, 0,
                        t->groups.forward_previous->comm, stream));
    CUDA_CHECK(cudaEventRecord(t->events.input_ready[slot], stream));
}

static void post_receive_gradients(struct trainer *t, int micro_batch)
{
    cudaStream_t stream = t->streams.receive_backward;
    int slot = micro_batch % GRADIENT_SLOTS;
    if (trainer_is_last_stage(t))
        return;
    CUDA_CHECK(cudaStreamWaitEvent(stream, t->events.gradient_free[slot], 0));
    NCCL_CHECK(ncclRecv(t->model.gradients[slot], values_of(t, micro_batch), NCCL_REAL, 1,
                        t->groups.backward_next->comm, stream));
    CUDA_CHECK(cudaEventRecord(t->events.gradient_ready[slot], stream));
}

static void post_receive(struct trainer *t, int i)
{
    struct step step = step_at(t, i);
    if (step.forward)
        post_receive_input(t, step.micro_batch);
    else
        post_receive_gradients(t, step.micro_batch);
}

static void run_forward(struct trainer *t, int micro_batch)
{
    int slot = micro_batch % t->model.in_flight;
    cudaStream_t compute = t->streams.compute, send = t->streams.send_forward;
    if (!trainer_is_first_stage(t))
        CUDA_CHECK(
            cudaStreamWaitEvent(compute, t->events.input_ready[micro_batch % t->model.inputs_count], 0));
    if (!trainer_is_last_stage(t))
        CUDA_CHECK(cudaStreamWaitEvent(compute, t->events.output_free[slot], 0));
    model_forward(t, micro_batch);
    if (trainer_is_last_stage(t))
        return;
    trainer_order(compute, t->events.output_ready[slot], send);
    NCCL_CHECK(ncclSend(model_stash(t, micro_batch)[t->params.layer_count - 1].out, values_of(t, micro_batch),
                        NCCL_REAL, 1, t->groups.forward_next->comm, send));
    CUDA_CHECK(cudaEventRecord(t->events.output_free[slot], send));
}

static void run_backward(struct trainer *t, int micro_batch)
{
    int slot = micro_batch % GRADIENT_SLOTS;
    cudaStream_t compute = t->streams.compute, send = t->streams.send_backward;
    cudaEvent_t ready =
        trainer_is_last_stage(t) ? t->events.gradient_free[slot] : t->events.gradient_ready[slot];
    CUDA_CHECK(cudaStreamWaitEvent(compute, ready, 0));
    model_backward(t, micro_batch, t->model.gradients[slot], micro_batch == t->options->micro_batches - 1);
    CUDA_CHECK(cudaEventRecord(t->events.input_free[micro_batch % t->model.inputs_count], compute));
    if (trainer_is_first_stage(t)) {
        CUDA_CHECK(cudaEventRecord(t->events.gradient_free[slot], compute));
        return;
    }
    trainer_order(compute, t->events.gradient_done[slot], send);
    NCCL_CHECK(ncclSend(t->model.gradients[slot], values_of(t, micro_batch), NCCL_REAL, 0,
                        t->groups.backward_previous->comm, send));
    CUDA_CHECK(cudaEventRecord(t->events.gradient_free[slot], send));
}

void pipeline_run(struct trainer *t)
{
    int steps = 2 * (int)t->options->micro_batches;
    post_receive(t, 0);
    for (int i = 0; i < steps; i++) {
        struct step step = step_at(t, i);
        if (i + 1 < steps)
            post_receive(t, i + 1);
        if (step.forward)
            run_forward(t, step.micro_batch);
        else
            run_backward(t, step.micro_batch);
    }
}
