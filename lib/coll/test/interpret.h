/* interpret.h - runs a prune plan on buffers in memory, as NCCL would run its calls (tests only). */
#ifndef PRISM_COLL_TEST_INTERPRET_H
#define PRISM_COLL_TEST_INTERPRET_H

#include "coll/plan.h"
#include "coll/reduce.h"

struct interpret_side {
    char **send, **recv;       /* by part; sandbox ranks */
    char *payload, *scratch;   /* assistants */
    struct coll_premul factor; /* of PREMUL calls */
};

/* 0, or -1 and why when calls do not match each other. */
int interpret(const struct coll_plan *plan, struct interpret_side *sides, const char **why);

#endif
