#include "mpi.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_SECONDS 120 /* ranks of a captured job start one after the other */

static int rank, world = 1;
static int *peers; /* rank 0: a socket to each rank; else peers[0] is the one to rank 0 */

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "mpi_shim: rank %d: %s%s%s\n", rank, what, errno ? ": " : "", errno ? strerror(errno) : "");
    _exit(1);
}

static void put(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            die("a rank is gone");
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

static void get(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t n = recv(fd, at, size, 0);
        if (n == 0)
            errno = 0;
        if (n == 0 || (n < 0 && errno != EINTR))
            die("a rank is gone");
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

static size_t size_of(MPI_Datatype type)
{
    static const size_t sizes[] = {0, 1, sizeof(int), sizeof(int64_t), sizeof(long), sizeof(long long), sizeof(double)};
    if (type <= MPI_DATATYPE_NULL || type > MPI_DOUBLE) {
        errno = 0;
        die("a datatype that the shim does not know");
    }
    return sizes[type];
}

static void accept_all(int listening)
{
    for (int i = 1; i < world; i++) {
        int32_t from, fd = accept(listening, NULL, NULL);
        if (fd < 0)
            die("accept");
        get(fd, &from, sizeof(from));
        errno = 0;
        if (from < 1 || from >= world || peers[from])
            die("a rank came twice: is MPI_SHIM_DIR used by another run?");
        peers[from] = fd;
    }
    close(listening);
}

static void connect_to_first(const struct sockaddr_un *address)
{
    int32_t mine = rank;
    peers[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; connect(peers[0], (const struct sockaddr *)address, sizeof(*address)); i++) {
        if (i == CONNECT_SECONDS * 100)
            die("rank 0 did not come");
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    put(peers[0], &mine, sizeof(mine));
}

int MPI_Init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *number = getenv("RANK"), *size = getenv("WORLD_SIZE"), *folder = getenv("MPI_SHIM_DIR");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    rank = number ? atoi(number) : 0;
    world = size ? atoi(size) : 1;
    errno = 0;
    if (world < 1 || rank < 0 || rank >= world)
        die("RANK and WORLD_SIZE make no sense");
    if (world == 1)
        return MPI_SUCCESS;
    if (!folder)
        die("set MPI_SHIM_DIR to an empty folder");
    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder) >= (int)sizeof(address.sun_path))
        die("MPI_SHIM_DIR is too long");
    peers = calloc((size_t)world, sizeof(*peers));
    if (!peers)
        die("memory");
    if (rank > 0) {
        connect_to_first(&address);
        return MPI_SUCCESS;
    }
    unlink(address.sun_path); /* of the phase before: capture and emulation start the program one after the other */
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, world))
        die(address.sun_path);
    accept_all(listening);
    return MPI_SUCCESS;
}

/* Every rank's part of the same size, in rank order, in `all` of every rank. `mine` may lie in `all`. */
static void gather_everywhere(const void *mine, char *all, size_t part)
{
    memmove(all + (size_t)rank * part, mine, part);
    if (rank > 0) {
        put(peers[0], mine, part);
        get(peers[0], all, part * (size_t)world);
        return;
    }
    for (int i = 1; i < world; i++)
        get(peers[i], all + (size_t)i * part, part);
    for (int i = 1; i < world; i++)
        put(peers[i], all, part * (size_t)world);
}

static char *gather_new(const void *mine, size_t part)
{
    char *all = malloc(part * (size_t)world + 1);
    if (!all)
        die("memory");
    gather_everywhere(mine, all, part);
    return all;
}

int MPI_Finalize(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; peers && i < world; i++)
        if (peers[i])
            close(peers[i]);
    free(peers);
    peers = NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    (void)comm;
    *size = world;
    return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *out)
{
    (void)comm;
    *out = rank;
    return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    int mine[2] = {color, key};
    int *all = (int *)(void *)gather_new(mine, sizeof(mine));
    for (int i = 1; i < world; i++)
        if (all[2 * i] != all[0] || all[2 * i + 1] < all[2 * i - 1]) {
            errno = 0;
            die("MPI_Comm_split into several parts or another order is not supported");
        }
    free(all);
    *out = comm;
    return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm)
{
    *comm = 0;
    return MPI_SUCCESS;
}

int MPI_Barrier(MPI_Comm comm)
{
    (void)comm;
    char nothing = 0;
    free(gather_new(&nothing, 1));
    return MPI_SUCCESS;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    (void)comm;
    size_t part = (size_t)count * size_of(type);
    char *all = gather_new(buffer, part);
    memcpy(buffer, all + (size_t)root * part, part);
    free(all);
    return MPI_SUCCESS;
}

int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm)
{
    (void)comm, (void)send_count, (void)send_type;
    size_t part = (size_t)receive_count * size_of(receive_type);
    gather_everywhere(send == MPI_IN_PLACE ? (char *)receive + (size_t)rank * part : send, receive, part);
    return MPI_SUCCESS;
}

int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
               MPI_Datatype receive_type, int root, MPI_Comm comm)
{
    (void)comm, (void)receive_count, (void)receive_type;
    size_t part = (size_t)send_count * size_of(send_type);
    char *all = gather_new(send, part);
    if (rank == root)
        memcpy(receive, all, part * (size_t)world);
    free(all);
    return MPI_SUCCESS;
}

#define REDUCE(type_)                                                                                                          \
    do {                                                                                                                       \
        type_ *sum = receive;                                                                                                  \
        const type_ *from = (const type_ *)(const void *)all;                                                                  \
        memcpy(sum, from, part);                                                                                               \
        for (int i = 1; i < world; i++)                                                                                        \
            for (int k = 0; k < count; k++) {                                                                                  \
                type_ v = from[i * count + k];                                                                                 \
                sum[k] = op == MPI_SUM ? sum[k] + v : (op == MPI_MIN) == (v < sum[k]) ? v : sum[k];                            \
            }                                                                                                                  \
    } while (0)

int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    (void)comm;
    size_t part = (size_t)count * size_of(type);
    char *all = gather_new(send == MPI_IN_PLACE ? receive : send, part);
    if (type == MPI_DOUBLE)
        REDUCE(double);
    else if (type == MPI_INT)
        REDUCE(int);
    else
        REDUCE(int64_t);
    free(all);
    return MPI_SUCCESS;
}
