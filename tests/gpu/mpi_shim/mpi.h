/* mpi.h - the part of MPI that nccl-tests uses, for ranks that some other launcher started on one machine.
 *
 * An MPI library belongs to the launcher: a program built against this header can be started by `prism run`, srun or
 * contrib/moetrain/launch.sh, which set RANK and WORLD_SIZE. Rank 0 listens on the Unix socket $MPI_SHIM_DIR/socket; every
 * other rank connects to it. Each call is a round: everyone sends to rank 0, and rank 0 answers everyone. One communicator
 * only: MPI_Comm_split with two colours ends the program. Calls must come from one thread at a time. A call that fails ends
 * the process with code 1 and one line on standard error, as MPI_ERRORS_ARE_FATAL does, so every return value is
 * MPI_SUCCESS. Meanings of arguments: MPI standard 4.1, chapters 3, 6 and 7.
 */
#ifndef PRISM_TESTS_MPI_SHIM_H
#define PRISM_TESTS_MPI_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Comm, MPI_Datatype, MPI_Op;

#define MPI_SUCCESS 0
#define MPI_COMM_WORLD 1
#define MPI_IN_PLACE ((void *)1)

/* A datatype's value is its number below; sizes are in mpi_shim.c. */
enum { MPI_DATATYPE_NULL, MPI_BYTE, MPI_INT, MPI_INT64_T, MPI_LONG, MPI_LONG_LONG, MPI_DOUBLE };
enum { MPI_SUM = 1, MPI_MIN, MPI_MAX };

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out); /* one colour, keys in the order of ranks */
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm);
int MPI_Gather(const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,
               MPI_Datatype receive_type, int root, MPI_Comm comm);
int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);

#ifdef __cplusplus
}
#endif
#endif
