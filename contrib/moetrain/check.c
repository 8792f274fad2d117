#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int message_rank = -1;

void check_set_rank(int rank)
{
    message_rank = rank;
}

_Noreturn void die(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout);
    if (message_rank >= 0)
        fprintf(stderr, "moetrain: rank %d: %s\n", message_rank, text);
    else
        fprintf(stderr, "moetrain: %s\n", text);
    /* Not exit(): other threads (store, watchdog) may be inside libraries whose destructors would wait for
     * them. */
    fflush(stderr);
    _Exit(EXIT_RUNTIME);
}

_Noreturn void check_cuda_failed(cudaError_t error, const char *what, const char *file, int line)
{
    die("CUDA error %d (%s) at %s:%d: %.200s", (int)error, cudaGetErrorString(error), file, line, what);
}

_Noreturn void check_nccl_failed(ncclResult_t error, const char *what, const char *file, int line)
{
    const char *last = ncclGetLastError(NULL);
    die("NCCL error %d (%s) at %s:%d: %.200s%s%s", (int)error, ncclGetErrorString(error), file, line, what,
        last && *last ? "; last error: " : "", last ? last : "");
}
