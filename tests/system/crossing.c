/* crossing.c - a program whose ranks make two communicators in opposite orders, in one group or by two threads at once.
 *
 *   crossing group|threads|refused
 *
 * Sums of both communicators, three iterations; each rank prints the last ones. refused: in a group; if that fails, each rank prints
 * what aborting its handles then says, and ends.
 */
#include <pthread.h>
#include <time.h>

#include "program.h"

#define COUNT 1000

static int rank, world;
static ncclUniqueId ids[2];
static ncclComm_t comms[2];

static void *make(void *which)
{
    int k = *(int *)which;
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    nccl(ncclCommInitRank(&comms[k], world, ids[k], rank));
    return NULL;
}

/* The second thread begins when the first has, and so waits in NCCL. */
static void make_by_threads(int *order)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, make, &order[i]))
            exit(3);
        nanosleep(&(struct timespec){0, 200000000}, NULL);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* What aborting the handles of a group says that was refused; nothing of one that was not. */
static void tell_refusal(ncclResult_t made, const ncclComm_t *handles)
{
    ncclComm_t alone;
    ncclUniqueId id;
    nccl(ncclGetUniqueId(&id));
    nccl(ncclCommInitRank(&alone, 1, id, 0)); /* may lie where memory was given back */
    for (int i = 0; made && i < 2; i++)
        printf("rank %d: aborting %s\n", rank, ncclCommAbort(handles[i]) == ncclInvalidArgument ? "no communicator" : "one");
    nccl(ncclCommDestroy(alone));
    if (made)
        exit(5);
}

static void make_in_group(int *order, int may_fail)
{
    ncclComm_t first[2];
    nccl(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        nccl(ncclCommInitRank(&first[i], world, ids[order[i]], rank));
        comms[order[i]] = first[i]; /* as NCCL allows */
    }
    ncclResult_t made = ncclGroupEnd();
    if (may_fail)
        tell_refusal(made, comms);
    nccl(made);
}

static void get_ids(struct c10d_client *store)
{
    struct prism_error err = { 0 };
    void *value = NULL;
    size_t len = 0;
    for (int k = 0; k < 2 && rank == 0; k++)
        nccl(ncclGetUniqueId(&ids[k]));
    if ((rank == 0 && c10d_client_set(store, "crossing/ids", ids, sizeof ids, &err)) ||
        c10d_client_get(store, "crossing/ids", 60000, &value, &len, &err) || len != sizeof ids)
        exit(4);
    memcpy(ids, value, sizeof ids);
    free(value);
}

int main(int argc, char **argv)
{
    float host[COUNT], *device[2];
    if (argc != 2)
        return 64;
    rank = number("RANK");
    world = number("WORLD_SIZE");
    int order[2] = {rank % 2, 1 - rank % 2};
    cuda(cudaSetDevice(number("LOCAL_RANK")));
    struct c10d_client *store = connect_store(rank);
    int may_fail = !strcmp(argv[1], "refused");
    ncclComm_t outer = may_fail ? NULL : make_comm(store, "crossing/outer", world, rank);
    get_ids(store);
    if (!strcmp(argv[1], "threads"))
        make_by_threads(order);
    else
        make_in_group(order, may_fail);
    for (int k = 0; k < 2; k++) {
        cuda(cudaMalloc((void **)&device[k], sizeof host));
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(rank + 1 + 10 * k);
        cuda(cudaMemcpy(device[k], host, sizeof host, cudaMemcpyHostToDevice));
    }
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++)
            nccl(ncclAllReduce(device[k], device[k], COUNT, ncclFloat, ncclSum, comms[k], NULL));
        cuda(cudaDeviceSynchronize());
    }
    for (int k = 0; k < 2; k++) {
        cuda(cudaMemcpy(host, device[k], sizeof host, cudaMemcpyDeviceToHost));
        printf("rank %d communicator %d: %g\n", rank, k, (double)host[COUNT - 1]);
        nccl(ncclCommDestroy(comms[k]));
    }
    if (outer)
        nccl(ncclCommDestroy(outer));
    c10d_client_close(store);
    return 0;
}
