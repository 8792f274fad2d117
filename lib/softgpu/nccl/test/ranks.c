#include "ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_RANKS     128
#define LIMIT_SECONDS 60

struct shared {
    pthread_barrier_t barrier;
    ncclUniqueId id;
    int64_t slots[1024];
};

static struct shared *shared;
static int this_rank = -1;

void meet(void)
{
    pthread_barrier_wait(&shared->barrier);
}

int64_t *shared_slot(int index)
{
    return &shared->slots[index];
}

void rank_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "rank %d: %s:%d: %s; last NCCL error: %s\n", this_rank, file, line, what,
            ncclGetLastError(NULL));
    _exit(1);
}

static void set_environment(int rank, const char *folder, const struct options *options)
{
    char text[32];
    int node = options->ranks_per_node ? rank / options->ranks_per_node : 0;
    setenv("SOFTGPU_DIR", folder, 1);
    setenv("SOFTGPU_DEVICES", options->ranks_per_node ? "8" : "64", 1);
    snprintf(text, sizeof(text), "%d", node);
    setenv("SOFTGPU_NODE", text, 1);
    snprintf(text, sizeof(text), "%d", options->ranks_per_node ? rank % options->ranks_per_node : rank);
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
    setenv("SOFTGPU_TIME_SCALE", options->time_scale ? options->time_scale : "0.002", 1);
    if (options->tcp)
        setenv("SOFTGPU_NCCL_TRANSPORT", "tcp", 1);
    if (options->environment)
        putenv((char *)(uintptr_t)options->environment);
}

static void child(int index, int ranks, rank_fn fn, const void *argument, const char *folder,
                  const struct options *options)
{
    struct rank rank = {.rank = index, .ranks = ranks, .argument = argument};
    alarm(LIMIT_SECONDS);
    this_rank = index;
    set_environment(index, folder, options);
    CUDA(cudaSetDevice(0));
    if (index == 0)
        NCCL(ncclGetUniqueId(&shared->id));
    meet();
    rank.id = shared->id;
    fn(&rank);
    exit(0);
}

static void remove_folder(const char *folder)
{
    char command[300];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command) != 0)
        fprintf(stderr, "cannot remove %s\n", folder);
}

void run_ranks(int ranks, rank_fn fn, const void *argument, struct options options)
{
    pthread_barrierattr_t attributes;
    pid_t pids[MAX_RANKS];
    char folder[] = "/tmp/softnccl-test-XXXXXX";
    int failures = 0;
    assert_true(ranks <= MAX_RANKS);
    assert_non_null(mkdtemp(folder));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)ranks);
    fflush(stdout);
    fflush(stderr);
    for (int r = 0; r < ranks; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0)
            child(r, ranks, fn, argument, folder, &options);
    }
    for (int r = 0; r < ranks; r++) {
        int status = 0;
        waitpid(pids[r], &status, 0);
        bool killed = r >= ranks - options.killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
            fprintf(stderr, "rank %d ended with status 0x%x\n", r, (unsigned)status);
            failures++;
            for (int other = r + 1; other < ranks; other++) /* they may wait for it */
                kill(pids[other], SIGTERM);
        }
    }
    munmap(shared, sizeof(*shared));
    remove_folder(folder);
    assert_int_equal(failures, 0);
}

ncclComm_t make_comm(struct rank *rank)
{
    ncclComm_t comm;
    NCCL(ncclCommInitRank(&comm, rank->ranks, rank->id, rank->rank));
    return comm;
}

ncclResult_t wait_async_error(ncclComm_t comm)
{
    for (;;) {
        ncclResult_t error;
        NCCL(ncclCommGetAsyncError(comm, &error));
        if (error != ncclSuccess && error != ncclInProgress)
            return error;
        usleep(2000);
    }
}

void *device_buffer(const void *data, size_t bytes)
{
    void *buffer;
    CUDA(cudaMalloc(&buffer, bytes ? bytes : 1));
    if (data)
        CUDA(cudaMemcpy(buffer, data, bytes, cudaMemcpyHostToDevice));
    else
        CUDA(cudaMemset(buffer, 0, bytes ? bytes : 1));
    CUDA(cudaStreamSynchronize(NULL)); /* a memset does not wait */
    return buffer;
}
