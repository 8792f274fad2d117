/* checks.h - what `prism doctor` looks at, each check with how to mend what it finds. */
#ifndef PRISM_CLI_CHECKS_H
#define PRISM_CLI_CHECKS_H

#include <stddef.h>

enum check_result {
    CHECK_GOOD,
    CHECK_WARN, /* works, with a limit that the text names */
    CHECK_BAD,  /* Prism will not work */
};

struct check {
    enum check_result result;
    const char *name;
    char found[512]; /* what is there */
    char mend[512];  /* what to do; empty when good */
};

#define CHECKS_MAX 32
/* Fills checks, returns their number. Loads CUDA and NCCL into this process. */
size_t checks_run(struct check checks[CHECKS_MAX]);

#endif
