/* measure_time.c - see measure_time.h. */
#include "measure_time.h"

#include <string.h>
#include <unistd.h>

int measure_timer_open(struct measure_timer *t, const struct gpu *gpu, ncclComm_t comm, int rank, int size,
                       size_t bytes, struct prism_error *err)
{
    *t = (struct measure_timer){ .gpu = gpu, .comm = comm, .rank = rank, .size = size, .bytes = bytes };
    GPU_CUDA(gpu, StreamCreateWithFlags(&t->stream, cudaStreamNonBlocking), err);
    for (size_t i = 0; i < 2 * MEASURE_REPEATS; i++)
        GPU_CUDA(gpu, EventCreateWithFlags(&t->events[i], cudaEventDefault), err);
    GPU_CUDA(gpu, Malloc(&t->send, bytes), err);
    GPU_CUDA(gpu, Malloc(&t->recv, bytes), err);
    GPU_CUDA(gpu, Memset(t->send, 0, bytes), err);
    GPU_CUDA(gpu, Memset(t->recv, 0, bytes), err);
    return 0;
}

void measure_timer_close(struct measure_timer *t)
{
    if (!t->gpu)
        return;
    if (t->stream) {
        t->gpu->StreamSynchronize(t->stream);
        t->gpu->StreamDestroy(t->stream);
    }
    for (size_t i = 0; i < 2 * MEASURE_REPEATS; i++)
        if (t->events[i])
            t->gpu->EventDestroy(t->events[i]);
    if (t->send)
        t->gpu->Free(t->send);
    if (t->recv)
        t->gpu->Free(t->recv);
    *t = (struct measure_timer){ 0 };
}

static int all_to_all(struct measure_timer *t, size_t part, struct prism_error *err)
{
    GPU_NCCL(t->gpu, GroupStart(), err);
    for (int peer = 0; peer < t->size; peer++) {
        GPU_NCCL(t->gpu, Send((char *)t->send + (size_t)peer * part, part, ncclUint8, peer, t->comm, t->stream), err);
        GPU_NCCL(t->gpu, Recv((char *)t->recv + (size_t)peer * part, part, ncclUint8, peer, t->comm, t->stream), err);
    }
    GPU_NCCL(t->gpu, GroupEnd(), err);
    return 0;
}

static int enqueue(struct measure_timer *t, enum measure_op op, size_t bytes, struct prism_error *err)
{
    const struct gpu *gpu = t->gpu;
    size_t part = bytes / (size_t)t->size, floats = bytes / sizeof(float);
    switch (op) {
    case MEASURE_ALL_REDUCE:
        GPU_NCCL(gpu, AllReduce(t->send, t->recv, floats, ncclFloat32, ncclSum, t->comm, t->stream), err);
        return 0;
    case MEASURE_ALL_GATHER:
        GPU_NCCL(gpu, AllGather(t->send, t->recv, part / 4, ncclFloat32, t->comm, t->stream), err);
        return 0;
    case MEASURE_REDUCE_SCATTER:
        GPU_NCCL(gpu, ReduceScatter(t->send, t->recv, part / 4, ncclFloat32, ncclSum, t->comm, t->stream), err);
        return 0;
    case MEASURE_BROADCAST:
        GPU_NCCL(gpu, Broadcast(t->send, t->recv, floats, ncclFloat32, 0, t->comm, t->stream), err);
        return 0;
    case MEASURE_ALL_TO_ALL:
        return all_to_all(t, part, err);
    default:
        if (t->rank == 0)
            GPU_NCCL(gpu, Send(t->send, floats, ncclFloat32, 1, t->comm, t->stream), err);
        else if (t->rank == 1)
            GPU_NCCL(gpu, Recv(t->recv, floats, ncclFloat32, 0, t->comm, t->stream), err);
        return 0;
    }
}

static int meet(struct measure_timer *t, struct prism_error *err)
{
    GPU_NCCL(t->gpu, AllReduce(t->send, t->recv, 1, ncclFloat32, ncclSum, t->comm, t->stream), err);
    return 0;
}

int measure_timer_run(struct measure_timer *t, enum measure_op op, size_t bytes, int repeats, float *seconds,
                      struct prism_error *err)
{
    for (int i = 0; i < repeats; i++) {
        if (meet(t, err) != 0)
            return -1;
        GPU_CUDA(t->gpu, EventRecord(t->events[2 * i], t->stream), err);
        if (enqueue(t, op, bytes, err) != 0)
            return -1;
        GPU_CUDA(t->gpu, EventRecord(t->events[2 * i + 1], t->stream), err);
    }
    GPU_CUDA(t->gpu, StreamSynchronize(t->stream), err);
    for (int i = 0; i < repeats; i++) {
        float ms;
        GPU_CUDA(t->gpu, EventElapsedTime(&ms, t->events[2 * i], t->events[2 * i + 1]), err);
        seconds[i] = ms * 1e-3f;
    }
    return 0;
}

int measure_timer_late_send(struct measure_timer *t, size_t bytes, unsigned delay_us, float *seconds,
                            struct prism_error *err)
{
    *seconds = 0;
    if (meet(t, err) != 0)
        return -1;
    if (t->rank == 1) {
        GPU_CUDA(t->gpu, StreamSynchronize(t->stream), err);
        usleep(delay_us);
    }
    GPU_CUDA(t->gpu, EventRecord(t->events[0], t->stream), err);
    if (enqueue(t, MEASURE_SEND_RECV, bytes, err) != 0)
        return -1;
    GPU_CUDA(t->gpu, EventRecord(t->events[1], t->stream), err);
    GPU_CUDA(t->gpu, StreamSynchronize(t->stream), err);
    float ms;
    GPU_CUDA(t->gpu, EventElapsedTime(&ms, t->events[0], t->events[1]), err);
    if (t->rank == 0)
        *seconds = ms * 1e-3f;
    return 0;
}
