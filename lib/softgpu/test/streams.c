/* streams.c - order, model time, default streams, events, host functions. No test waits for a tight real time. */
#include <pthread.h>

#include "softgpu/test/child.h"

static float elapsed(cudaEvent_t a, cudaEvent_t b)
{
    float ms;
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    return ms;
}

static bool near(float a, float b)
{
    return a > b - 0.01f && a < b + 0.01f;
}

/* --- order and time on one stream --- */

static int log_entries[64], log_count;

static void append(void *args)
{
    log_entries[log_count++] = (int)(intptr_t)*(void **)args;
}

static void durations_add_up(void)
{
    cudaStream_t stream;
    cudaEvent_t begin, middle, end;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&middle));
    OK(cudaEventCreate(&end));
    launch_ms(stream, no_work, NULL, 5); /* so that what follows waits for it, not for the host */
    OK(cudaEventRecord(begin, stream));
    for (int i = 0; i < 10; i++)
        launch_ms(stream, append, (void *)(intptr_t)i, 2);
    OK(cudaEventRecord(middle, stream));
    for (int i = 10; i < 20; i++)
        launch_ms(stream, append, (void *)(intptr_t)i, 1);
    OK(cudaEventRecord(end, stream));
    CHECK_IS(cudaEventQuery(end), cudaErrorNotReady);
    CHECK_IS(cudaStreamQuery(stream), cudaErrorNotReady);
    CHECK_IS(cudaPeekAtLastError(), cudaSuccess); /* "not ready" is no error to remember */
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamQuery(stream));
    CHECK(log_count == 20);
    for (int i = 0; i < 20; i++)
        CHECK(log_entries[i] == i);
    CHECK(near(elapsed(begin, middle), 20));
    CHECK(near(elapsed(middle, end), 10)); /* ends are modelled, lateness of wake-ups does not add up */
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(middle));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(stream));
}
TIMED_IN_CHILD(durations_add_up)

static void host_clock_follows_model(void)
{
    cudaEvent_t a, b;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    launch_ms(NULL, no_work, NULL, 1);
    OK(cudaEventRecord(a, NULL));
    for (int i = 0; i < 20; i++) {
        launch_ms(NULL, no_work, NULL, 2);
        OK(cudaStreamSynchronize(NULL));
    }
    OK(cudaEventRecord(b, NULL));
    float ms = elapsed(a, b); /* 40 ms, and what the host itself needed between wake-up and launch */
    CHECK(ms > 39.9f && ms < 60.f);
}
IN_CHILD(host_clock_follows_model)

/* --- order between streams --- */

static void events_order_streams(void)
{
    cudaStream_t one, two;
    cudaEvent_t start, done, end;
    OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    OK(cudaEventCreate(&end));
    OK(cudaStreamWaitEvent(two, done, 0)); /* never recorded: holds nobody up */
    launch_ms(one, no_work, NULL, 5);
    OK(cudaEventRecord(start, one));
    launch_ms(one, append, (void *)1, 20);
    OK(cudaEventRecord(done, one));
    OK(cudaStreamWaitEvent(two, done, 0));
    OK(cudaEventRecord(done, one)); /* the wait means the record before it */
    launch_ms(two, append, (void *)2, 5);
    OK(cudaEventRecord(end, two));
    CHECK(near(elapsed(start, end), 25));
    CHECK(log_count == 2 && log_entries[0] == 1 && log_entries[1] == 2);
    float ms;
    CHECK_IS(cudaEventElapsedTime(&ms, start, done), cudaErrorInvalidResourceHandle);
    CHECK_IS(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    CHECK_IS(cudaGetLastError(), cudaSuccess);
}
TIMED_IN_CHILD(events_order_streams)

static void streams_overlap(void)
{
    cudaStream_t streams[4];
    cudaEvent_t begin, ends[4];
    OK(cudaEventCreate(&begin));
    OK(cudaEventRecord(begin, NULL));
    for (int i = 0; i < 4; i++) {
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        OK(cudaEventCreate(&ends[i]));
        launch_ms(streams[i], no_work, NULL, 100);
        OK(cudaEventRecord(ends[i], streams[i]));
    }
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 4; i++)
        CHECK(elapsed(begin, ends[i]) > 99.9f && elapsed(begin, ends[i]) < 190.f);
}
IN_CHILD(streams_overlap)

static void legacy_stream_waits_for_blocking_ones(void)
{
    cudaStream_t blocking, other, free_running;
    cudaEvent_t begin, legacy_end, other_end, free_end;
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamCreate(&other));
    OK(cudaStreamCreateWithFlags(&free_running, cudaStreamNonBlocking));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&legacy_end));
    OK(cudaEventCreate(&other_end));
    OK(cudaEventCreate(&free_end));
    launch_ms(blocking, no_work, NULL, 5);
    OK(cudaEventRecord(begin, blocking));
    launch_ms(blocking, append, (void *)1, 100);
    launch_ms(NULL, append, (void *)2, 10); /* after what blocking has */
    OK(cudaEventRecord(legacy_end, cudaStreamLegacy));
    launch_ms(other, append, (void *)3, 10); /* after what the legacy stream has */
    OK(cudaEventRecord(other_end, other));
    launch_ms(free_running, no_work, NULL, 10); /* after nothing */
    OK(cudaEventRecord(free_end, free_running));
    CHECK(near(elapsed(begin, legacy_end), 110));
    CHECK(near(elapsed(begin, other_end), 120));
    CHECK(elapsed(begin, free_end) < 100.f);
    CHECK(log_count == 3 && log_entries[0] == 1 && log_entries[1] == 2 && log_entries[2] == 3);
}
TIMED_IN_CHILD(legacy_stream_waits_for_blocking_ones)

/* --- per-thread default streams --- */

static void *thread_body(void *argument)
{
    launch_ms(cudaStreamPerThread, no_work, NULL, 100);
    OK(cudaEventRecord(argument, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    return NULL;
}

static void threads_have_streams(void)
{
    pthread_t threads[3];
    cudaEvent_t begin, ends[3], after;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&after));
    OK(cudaEventRecord(begin, cudaStreamPerThread));
    for (int i = 0; i < 3; i++) {
        OK(cudaEventCreate(&ends[i]));
        OK(pthread_create(&threads[i], NULL, thread_body, ends[i]));
    }
    pause_ms(20);
    OK(cudaEventRecord(after, cudaStreamLegacy)); /* they are blocking streams */
    for (int i = 0; i < 3; i++)
        OK(pthread_join(threads[i], NULL));
    for (int i = 0; i < 3; i++)
        CHECK(elapsed(begin, ends[i]) < 190.f);
    CHECK(elapsed(begin, after) > 99.f);
    unsigned long long mine, legacy;
    OK(cudaStreamGetId(cudaStreamPerThread, &mine));
    OK(cudaStreamGetId(NULL, &legacy));
    CHECK(mine != legacy);
}
TIMED_IN_CHILD(threads_have_streams)

/* --- host functions --- */

static void on_host(void *data)
{
    *(int *)data += 1;
}

static void on_callback(cudaStream_t stream, cudaError_t status, void *data)
{
    CHECK(status == cudaSuccess);
    *(int *)data *= 10;
}

static void host_functions_run_in_order(void)
{
    int value = 0;
    OK(cudaLaunchHostFunc(NULL, on_host, &value));
    OK(cudaStreamAddCallback(NULL, on_callback, &value, 0));
    OK(cudaLaunchHostFunc(NULL, on_host, &value));
    OK(cudaStreamSynchronize(NULL));
    CHECK(value == 11);
    CHECK_IS(cudaLaunchHostFunc(NULL, NULL, &value), cudaErrorInvalidValue);
}
IN_CHILD(host_functions_run_in_order)

static void stream_properties(void)
{
    cudaStream_t stream;
    int least, greatest, priority, device;
    unsigned flags;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(least == 0 && greatest < 0);
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
    OK(cudaStreamGetPriority(stream, &priority));
    CHECK(priority == greatest); /* clamped */
    OK(cudaStreamGetFlags(stream, &flags));
    CHECK(flags == cudaStreamNonBlocking);
    OK(cudaStreamGetDevice(stream, &device));
    CHECK(device == 0);
    launch_ms(stream, no_work, NULL, 50);
    OK(cudaStreamDestroy(stream)); /* goes on by itself */
    CHECK_IS(cudaStreamCreateWithFlags(&stream, 7), cudaErrorInvalidValue);
    CHECK_IS(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
}
IN_CHILD(stream_properties)

/* Captures begin and say so; work, and unsafe calls beside one in global mode, invalidate them. */
static void captures_take_no_work(void)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    enum cudaStreamCaptureStatus status;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    static char page[2][4096];
    void *memory;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&memory, 4096));
    CHECK_IS(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
    CHECK_IS(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaHostRegister(page[0], 4096, 0));
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK_IS(cudaMemsetAsync(memory, 0, 4096, stream), cudaErrorStreamCaptureUnsupported);
    CHECK_IS(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaMemsetAsync(memory, 0, 4096, stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_IS(cudaHostRegister(page[1], 4096, 0), cudaErrorStreamCaptureUnsupported);
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK_IS(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaHostRegister(page[1], 4096, 0));
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
}
IN_CHILD(captures_take_no_work)

static void many_streams_are_cheap(void)
{
    cudaStream_t streams[64];
    for (int i = 0; i < 64; i++) {
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        launch_ms(streams[i], no_work, NULL, 1);
    }
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 64; i++)
        OK(cudaStreamDestroy(streams[i]));
}
IN_CHILD(many_streams_are_cheap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations_add_up),
        cmocka_unit_test(test_host_clock_follows_model),
        cmocka_unit_test(test_events_order_streams),
        cmocka_unit_test(test_streams_overlap),
        cmocka_unit_test(test_legacy_stream_waits_for_blocking_ones),
        cmocka_unit_test(test_threads_have_streams),
        cmocka_unit_test(test_host_functions_run_in_order),
        cmocka_unit_test(test_stream_properties),
        cmocka_unit_test(test_captures_take_no_work),
        cmocka_unit_test(test_many_streams_are_cheap),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
