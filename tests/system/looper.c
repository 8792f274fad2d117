/* looper.c - a small NCCL program for fault tests: all-reduces in a loop, with faults that a file asks for, so that the
 * command line (which names the program to a trace) stays the same.
 *
 *   looper FAULT_FILE ITERATIONS [MILLISECONDS [other]]
 *
 * FAULT_FILE, read in every iteration, may hold one line "crash R I", "exit R I CODE", "hang R I" (for as long as
 * the file is there), "wait R I" (for a key of the store that nobody sets), "make R I" (a communicator) or "use R I" (the other
 * communicator, which with the word other all make, and use in the first iteration): what rank R does at the start of iteration I. Prints "rank R iteration I sum S" and at the end "rank R done", with the program's view of
 * CUDA_DEVICE_MAX_CONNECTIONS if it is set.
 */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c10d/client.h"
#include "c10d/server.h"

#define COUNT 4096

static int number(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "looper: %s is not set\n", name);
        exit(2);
    }
    return atoi(value);
}

static void cuda(cudaError_t result)
{
    if (result != cudaSuccess) {
        fprintf(stderr, "looper: CUDA: %s\n", cudaGetErrorString(result));
        exit(5);
    }
}

static void nccl(ncclResult_t result)
{
    if (result != ncclSuccess) {
        fprintf(stderr, "looper: NCCL: %s\n", ncclGetErrorString(result));
        exit(6);
    }
}

static struct c10d_client *open_store(int rank)
{
    static bool served;
    struct prism_error err = { 0 };
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"), *host = getenv("MASTER_ADDR");
    uint16_t port = (uint16_t)number("MASTER_PORT");
    if (rank == 0 && !served && !(agent && strcmp(agent, "True") == 0))
        c10d_server_start_thread(NULL, port, NULL, &err); /* lives as long as the process */
    served = true;
    struct c10d_client *store = c10d_client_connect(host, port, 60000, &err);
    if (!store) {
        fprintf(stderr, "looper: store: %s\n", err.text);
        exit(4);
    }
    return store;
}

static ncclUniqueId exchange_id(int rank, const char *key)
{
    struct prism_error err = { 0 };
    ncclUniqueId id;
    void *value = NULL;
    size_t len = 0;
    struct c10d_client *store = open_store(rank);
    if (rank == 0)
        nccl(ncclGetUniqueId(&id));
    if ((rank == 0 && c10d_client_set(store, key, &id, sizeof(id), &err) != 0) ||
        c10d_client_get(store, key, 60000, &value, &len, &err) != 0 || len != sizeof(id)) {
        fprintf(stderr, "looper: store: %s\n", err.text);
        exit(4);
    }
    memcpy(&id, value, sizeof(id));
    free(value);
    c10d_client_close(store);
    return id;
}

struct other {
    ncclComm_t comm; /* NULL: none was made */
    cudaStream_t stream;
    float *buffer;
    int size;
};

static void use(const struct other *o)
{
    nccl(ncclAllReduce(o->buffer, o->buffer, COUNT, ncclFloat32, ncclSum, o->comm, o->stream));
    cuda(cudaStreamSynchronize(o->stream));
}

static void fault(const char *path, int rank, int iteration, struct other *o)
{
    char what[16] = "";
    int who = -1, when = -1, code = 0;
    FILE *in = fopen(path, "r");
    int n = in ? fscanf(in, "%15s %d %d %d", what, &who, &when, &code) : 0;
    if (in)
        fclose(in);
    if (n < 3 || who != rank || when != iteration)
        return;
    fflush(stdout);
    if (strcmp(what, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(what, "exit") == 0) {
        printf("rank %d leaves early\n", rank);
        exit(code);
    }
    if (strcmp(what, "wait") == 0)
        c10d_client_wait(open_store(rank), &(const char *){ "looper/nobody" }, 1, 600000, &(struct prism_error){ 0 });
    if (strcmp(what, "make") == 0)
        nccl(ncclCommInitRank(&o->comm, o->size, exchange_id(rank, "looper/made"), rank));
    if (strcmp(what, "use") == 0)
        use(o);
    while (strcmp(what, "hang") == 0 && !access(path, F_OK))
        usleep(20000);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int rank = number("RANK"), size = number("WORLD_SIZE"), iterations = atoi(argv[2]);
    int pause_ms = argc > 3 ? atoi(argv[3]) : 0;
    cudaStream_t stream;
    ncclComm_t comm;
    float *buffer, host = 0;
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc((void **)&buffer, COUNT * sizeof(float)));
    nccl(ncclCommInitRank(&comm, size, exchange_id(rank, "looper/id"), rank));
    struct other other = { .stream = stream, .buffer = buffer, .size = size };
    if (argc > 4)
        nccl(ncclCommInitRank(&other.comm, size, exchange_id(rank, "looper/other"), rank));
    for (int i = 0; i < iterations; i++) {
        fault(argv[1], rank, i, &other);
        if (!i && other.comm)
            use(&other);
        host = (float)(rank + i);
        cuda(cudaMemcpyAsync(buffer, &host, sizeof(host), cudaMemcpyHostToDevice, stream));
        nccl(ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, comm, stream));
        cuda(cudaMemcpyAsync(&host, buffer, sizeof(host), cudaMemcpyDeviceToHost, stream));
        cuda(cudaStreamSynchronize(stream));
        printf("rank %d iteration %d sum %.0f\n", rank, i, (double)host);
        fflush(stdout);
        usleep((useconds_t)pause_ms * 1000);
    }
    nccl(ncclCommDestroy(comm));
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (connections)
        printf("rank %d connections %s\n", rank, connections);
    printf("rank %d done\n", rank);
    return 0;
}
