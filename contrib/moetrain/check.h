/* check.h - errors of moetrain: one line on stderr, then exit(1). The trainer owns its process, so it does
 * not unwind: the launcher ends the other ranks. */
#ifndef MOETRAIN_CHECK_H
#define MOETRAIN_CHECK_H

#include <cuda_runtime_api.h>
#include <nccl.h>

/* Exit code of errors at run time and of bad options. */
enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

/* The rank that messages name; -1 (no rank known yet) leaves it out. */
void check_set_rank(int rank);

/* Print "moetrain: rank R: <message>" and exit(EXIT_RUNTIME). */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Called by the macros below. */
_Noreturn void check_cuda_failed(cudaError_t error, const char *what, const char *file, int line);
_Noreturn void check_nccl_failed(ncclResult_t error, const char *what, const char *file, int line);

#define CUDA_CHECK(call)                                                                                     \
    do {                                                                                                     \
        cudaError_t cuda_check_error = (call);                                                               \
        if (cuda_check_error != cudaSuccess)                                                                 \
            check_cuda_failed(cuda_check_error, #call, __FILE__, __LINE__);                                  \
    } while (0)

#define NCCL_CHECK(call)                                                                                     \
    do {                                                                                                     \
        ncclResult_t nccl_check_error = (call);                                                              \
        if (nccl_check_error != ncclSuccess)                                                                 \
            check_nccl_failed(nccl_check_error, #call, __FILE__, __LINE__);                                  \
    } while (0)

#endif
