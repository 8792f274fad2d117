/* check.h - for measuring programs that are linked with CUDA and NCCL (open.h has MUST, for those that are not): a call that must
 * return 0, or the program says which one did not and ends with 1. */
#ifndef PRISM_TESTS_GPU_CHECK_H
#define PRISM_TESTS_GPU_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                      \
    do {                                                 \
        int check_ = (int)(call);                        \
        if (check_) {                                    \
            fprintf(stderr, "%s = %d\n", #call, check_); \
            exit(1);                                     \
        }                                                \
    } while (0)

#endif
