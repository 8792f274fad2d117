/* per_thread.c - a program compiled for per-thread default streams: NULL is the calling thread's own stream. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include <pthread.h>

#include "softgpu/test/child.h"

static void *busy_thread(void *argument)
{
    launch_ms(cudaStreamPerThread, no_work, NULL, 200);
    OK(cudaEventRecord(argument, NULL));
    pause_ms(400); /* the thread's stream ends with it */
    return NULL;
}

static void null_is_the_threads_stream(void)
{
    cudaEvent_t other;
    pthread_t thread;
    int value = 5, back = 0;
    void *memory;
    OK(cudaEventCreate(&other));
    OK(cudaMalloc(&memory, 4));
    OK(pthread_create(&thread, NULL, busy_thread, other));
    pause_ms(30);
    OK(cudaMemcpy(memory, &value, 4, cudaMemcpyHostToDevice)); /* waits for no other thread's work */
    OK(cudaMemcpyAsync(&back, memory, 4, cudaMemcpyDeviceToHost, NULL));
    OK(cudaStreamSynchronize(NULL));
    CHECK(back == 5);
    CHECK_IS(cudaEventQuery(other), cudaErrorNotReady);
    OK(cudaEventSynchronize(other));
    void *p;
    OK(cuGetProcAddress("cuMemcpyAsync", &p, 12000, CU_GET_PROC_ADDRESS_DEFAULT, NULL));
    CHECK(p == (void *)cuMemcpyAsync);
    OK(pthread_join(thread, NULL));
}
IN_CHILD(null_is_the_threads_stream)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_null_is_the_threads_stream)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
