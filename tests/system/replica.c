/* replica.c - ranks that all do the same, for tests of folded capture (fold.bats). With tensor groups of TP and data groups over
 * the ranks TP apart:
 *
 *   replica gloo TP      puts an address into the store as a member of a Gloo group does
 *   replica absent TP    rank 0 waits for a key that rank 3 sets (or for $REPLICA_KEY)
 *   replica barrier TP   a barrier in the store as torch.distributed makes it, then sums over tensor and data groups
 *   replica ring TP      sends round the data group, one on and two on
 *   replica exchange TP  sends to all of the data group and itself, other numbers to each
 *   replica others TP    sends to all of the data group but itself, other numbers by how far they are
 *   replica broadcast TP from the last of the data group
 *   replica first TP     the first of the data group adds 1, the others nothing
 *
 * Prints "rank R: NUMBER …", which is the same in a full capture. */
#include "program.h"

#define COUNT 64

static cudaStream_t stream;
static float *values; /* device memory of software GPUs is the host's */

static void set(struct c10d_client *store, const char *key)
{
    struct prism_error err = {0};
    if (c10d_client_set(store, key, "x", 1, &err)) {
        fprintf(stderr, "store: %s\n", err.text);
        exit(4);
    }
}

static void await(struct c10d_client *store, const char *key)
{
    struct prism_error err = {0};
    if (c10d_client_wait(store, &key, 1, 60000, &err)) {
        fprintf(stderr, "store: %s\n", err.text);
        exit(4);
    }
}

static void barrier(struct c10d_client *store, int size)
{
    static const char key[] = "store_based_barrier_key:default_pg", last[] = "store_based_barrier_key:default_pg:last_worker";
    struct prism_error err = {0};
    int64_t counted;
    if (c10d_client_add(store, key, 1, NULL, &err) || c10d_client_add(store, key, 0, &counted, &err)) {
        fprintf(stderr, "store: %s\n", err.text);
        exit(4);
    }
    if (counted == size)
        set(store, last);
    await(store, last);
}

static void show(int rank, int n)
{
    cuda(cudaStreamSynchronize(stream));
    printf("rank %d:", rank);
    for (int i = 0; i < n; i++)
        printf(" %g", values[i * COUNT]);
    printf("\n");
}

/* values[0]: what is sent; behind it what came. */
static void ring(ncclComm_t dp, int place, int size)
{
    for (int far = 1; far <= 2; far++) {
        nccl(ncclGroupStart());
        nccl(ncclSend(values, COUNT, ncclFloat32, (place + far) % size, dp, stream));
        nccl(ncclRecv(values + far * COUNT, COUNT, ncclFloat32, (place + size - far) % size, dp, stream));
        nccl(ncclGroupEnd());
    }
}

static void exchange(ncclComm_t dp, int size)
{
    nccl(ncclGroupStart());
    for (int to = 0; to < size; to++) {
        nccl(ncclSend(values + to, 1, ncclFloat32, to, dp, stream));
        nccl(ncclRecv(values + (to + 1) * COUNT, 1, ncclFloat32, to, dp, stream));
    }
    nccl(ncclGroupEnd());
}

static void exchange_others(ncclComm_t dp, int place, int size)
{
    nccl(ncclGroupStart());
    for (int far = 1; far < size; far++) {
        nccl(ncclSend(values + far, 1, ncclFloat32, (place + far) % size, dp, stream));
        nccl(ncclRecv(values + far * COUNT, 1, ncclFloat32, (place + size - far) % size, dp, stream));
    }
    nccl(ncclGroupEnd());
}

static void compute(const char *mode, struct c10d_client *store, int rank, int size, int tp_size)
{
    char key[32];
    int dp_size = size / tp_size, place = rank / tp_size, within = rank % tp_size, shown = dp_size + 1;
    snprintf(key, sizeof key, "replica/tp%d", place);
    ncclComm_t tp = make_comm(store, key, tp_size, within);
    snprintf(key, sizeof key, "replica/dp%d", within);
    ncclComm_t dp = make_comm(store, key, dp_size, place);
    for (int i = 0; i < (dp_size + 1) * COUNT; i++)
        values[i] = (float)(within * 100 + i);
    if (!strcmp(mode, "ring")) {
        ring(dp, place, dp_size);
        shown = 3;
    } else if (!strcmp(mode, "exchange")) {
        exchange(dp, dp_size);
    } else if (!strcmp(mode, "others")) {
        exchange_others(dp, place, dp_size);
    } else if (!strcmp(mode, "first")) {
        values[0] = place == 0;
        nccl(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, dp, stream));
        shown = 1;
    } else if (!strcmp(mode, "broadcast")) {
        nccl(ncclBroadcast(values, values, COUNT, ncclFloat32, dp_size - 1, dp, stream));
    } else {
        nccl(ncclAllReduce(values, values, COUNT, ncclFloat32, ncclSum, tp, stream));
        nccl(ncclAllReduce(values, values, COUNT, ncclFloat32, ncclSum, dp, stream));
        shown = 1;
    }
    show(rank, shown);
    nccl(ncclCommDestroy(dp));
    nccl(ncclCommDestroy(tp));
}

int main(int argc, char **argv)
{
    int rank = number("RANK"), size = number("WORLD_SIZE"), tp = argc > 2 ? atoi(argv[2]) : 1;
    const char *mode = argc > 1 ? argv[1] : "";
    char key[64];
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc((void **)&values, (size_t)(size + 1) * COUNT * sizeof *values));
    struct c10d_client *store = connect_store(rank);
    if (!strcmp(mode, "gloo")) {
        snprintf(key, sizeof key, "worker/pg_of_all//cpu//0/%d", rank);
        set(store, key);
    } else if (!strcmp(mode, "absent")) {
        snprintf(key, sizeof key, "ready/%d", rank);
        set(store, key);
        if (rank == 0)
            await(store, getenv("REPLICA_KEY") ? getenv("REPLICA_KEY") : "ready/3");
    } else if (!strcmp(mode, "barrier")) {
        barrier(store, size);
    }
    compute(mode, store, rank, size, tp);
    c10d_client_close(store);
    return 0;
}
