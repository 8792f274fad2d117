/* waits.c - many streams that wait in a collective at the same time: every stream has a communicator of the
 * whole world, and the last rank is late. */
#include "trainer.h"

/* How late, before --cost-scale. */
static const double late_microseconds = 2000;

void waits_create(struct trainer *t)
{
    int count = t->groups.waiting_count;
    if (count == 0)
        return;
    t->streams.waits = resource_host((size_t)count, sizeof *t->streams.waits);
    t->events.waits_end = resource_host((size_t)count, sizeof *t->events.waits_end);
    real *ranks = resource_host((size_t)count, sizeof *ranks);
    t->events.waits_begin = resource_event();
    for (int i = 0; i < count; i++) {
        t->streams.waits[i] = resource_stream();
        t->events.waits_end[i] = resource_event();
        ranks[i] = (real)(t->layout.rank + i);
    }
    t->wait_values = memory_allocate(2 * (size_t)count * sizeof(real));
    t->host_waits = resource_pinned((size_t)count * sizeof(real));
    CUDA_CHECK(cudaMemcpy(t->wait_values, ranks, (size_t)count * sizeof(real), cudaMemcpyHostToDevice));
}

void waits_begin(struct trainer *t)
{
    int count = t->groups.waiting_count;
    if (count == 0)
        return;
    if (t->layout.rank == t->layout.world - 1)
        CUDA_CHECK(kernels_delay(t->streams.compute, late_microseconds));
    CUDA_CHECK(cudaEventRecord(t->events.waits_begin, t->streams.compute));
    for (int i = 0; i < count; i++) {
        cudaStream_t stream = t->streams.waits[i];
        CUDA_CHECK(cudaStreamWaitEvent(stream, t->events.waits_begin, 0));
        if (t->layout.world > 1)
            NCCL_CHECK(ncclAllReduce(t->wait_values + i, t->wait_values + count + i, 1, NCCL_REAL, ncclSum,
                                     t->groups.waiting[i].comm, stream));
        CUDA_CHECK(cudaEventRecord(t->events.waits_end[i], stream));
    }
}

void waits_end(struct trainer *t)
{
    int count = t->groups.waiting_count, world = t->layout.world;
    if (count == 0 || world < 2)
        return;
    for (int i = 0; i < count; i++)
        CUDA_CHECK(cudaStreamWaitEvent(t->streams.compute, t->events.waits_end[i], 0));
    CUDA_CHECK(cudaMemcpyAsync(t->host_waits, t->wait_values + count, (size_t)count * sizeof(real),
                               cudaMemcpyDeviceToHost, t->streams.compute));
    CUDA_CHECK(cudaEventRecord(t->events.sums_read, t->streams.compute));
    CUDA_CHECK(cudaEventSynchronize(t->events.sums_read));
    for (int i = 0; i < count; i++) {
        double expected = world * (world - 1) / 2.0 + (double)i * world;
        if (t->host_waits[i] != (real)expected)
            die("waiting stream %d: the sum of the ranks is %g, not %g", i, (double)t->host_waits[i],
                expected);
    }
}
