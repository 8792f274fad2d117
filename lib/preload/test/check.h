/* check.h - for the programs that the tests run as ranks: a call that must return 0. What fails is said on standard output,
 * which the tests show, and the program ends with 1. */
#ifndef PRISM_PRELOAD_TEST_CHECK_H
#define PRISM_PRELOAD_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                  \
    do {                                                             \
        int check_ = (int)(call);                                    \
        if (check_) {                                                \
            printf("%s = %d at line %d\n", #call, check_, __LINE__); \
            exit(1);                                                 \
        }                                                            \
    } while (0)

#endif
