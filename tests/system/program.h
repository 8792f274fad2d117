/* program.h - what the small NCCL programs of the tests share: checked calls, and communicators by way of the store. */
#ifndef PRISM_TESTS_SYSTEM_PROGRAM_H
#define PRISM_TESTS_SYSTEM_PROGRAM_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c10d/client.h"
#include "c10d/server.h"

static int number(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "%s is not set\n", name);
        exit(2);
    }
    return atoi(value);
}

static void cuda(cudaError_t result)
{
    if (result != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(result));
        exit(5);
    }
}

static void nccl(ncclResult_t result)
{
    if (result != ncclSuccess) {
        fprintf(stderr, "NCCL: %s\n", ncclGetErrorString(result));
        exit(6);
    }
}

/* The launcher's store, or rank 0's own, which lives as long as the process. */
static struct c10d_client *connect_store(int rank)
{
    struct prism_error err = { 0 };
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (rank == 0 && !(agent && strcmp(agent, "True") == 0))
        c10d_server_start_thread(NULL, (uint16_t)number("MASTER_PORT"), NULL, &err);
    struct c10d_client *store = c10d_client_connect(getenv("MASTER_ADDR"), (uint16_t)number("MASTER_PORT"), 60000, &err);
    if (!store) {
        fprintf(stderr, "store: %s\n", err.text);
        exit(4);
    }
    return store;
}

/* The communicator named key of that size; its rank 0 publishes the id. */
static ncclComm_t make_comm(struct c10d_client *store, const char *key, int size, int rank)
{
    struct prism_error err = { 0 };
    ncclUniqueId id;
    ncclComm_t comm;
    void *value = NULL;
    size_t len = 0;
    if (rank == 0)
        nccl(ncclGetUniqueId(&id));
    if ((rank == 0 && c10d_client_set(store, key, &id, sizeof(id), &err) != 0) ||
        c10d_client_get(store, key, 60000, &value, &len, &err) != 0 || len != sizeof(id)) {
        fprintf(stderr, "store: %s\n", err.text);
        exit(4);
    }
    memcpy(&id, value, sizeof(id));
    free(value);
    nccl(ncclCommInitRank(&comm, size, id, rank));
    return comm;
}

#endif
