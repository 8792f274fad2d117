/* mpi_sum.c - a plain MPI program: MPI_Init, MPI_Allreduce, who shares a node, MPI_Finalize. Built by the tests with mpicc.
 *
 *   mpi_sum [--nccl | --abort RANK | --kill RANK | --exit CODE]
 *
 * --nccl: each rank also makes an NCCL communicator of its own, whose id rank 0 could have broadcast.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nccl_id {
    char internal[128];
};

static void *symbol(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL), *address = handle ? dlsym(handle, name) : NULL;
    if (!address) {
        fprintf(stderr, "no %s in %s\n", name, library);
        exit(2);
    }
    return address;
}

static void call_nccl(void)
{
    int (*set_device)(int) = (int (*)(int))symbol("libcudart.so.13", "cudaSetDevice");
    int (*get_id)(struct nccl_id *) = (int (*)(struct nccl_id *))symbol("libnccl.so.2", "ncclGetUniqueId");
    int (*init)(void **, int, struct nccl_id, int) = (int (*)(void **, int, struct nccl_id, int))symbol("libnccl.so.2", "ncclCommInitRank");
    struct nccl_id id;
    void *communicator;
    if (set_device(0) || get_id(&id) || init(&communicator, 1, id, 0)) {
        fprintf(stderr, "NCCL fails\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    int rank, size, node_rank, node_size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long own = rank + 1, sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    printf("rank %d of %d sum %ld local %d of %d\n", rank, size, sum, node_rank, node_size);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "--nccl"))
        call_nccl();
    if (argc > 2 && !strcmp(argv[1], "--abort") && rank == atoi(argv[2]))
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (argc > 2 && !strcmp(argv[1], "--kill") && rank == atoi(argv[2]))
        raise(SIGKILL);
    MPI_Finalize();
    return argc > 2 && !strcmp(argv[1], "--exit") ? atoi(argv[2]) : 0;
}
