/* coll_use.h - how often sandbox ranks used each operation on real communicators, and what that moved. */
#ifndef PRISM_PRISMD_COLL_USE_H
#define PRISM_PRISMD_COLL_USE_H

#include <stdint.h>

#include "coll/types.h"

struct coll_use_op {
    uint64_t count;
    uint64_t bytes; /* through the sandbox ranks' links, both directions, really */
    uint64_t full;  /* the same, had the full communicators run */
};

struct coll_use {
    struct coll_use_op ops[PRISM_OP_END]; /* by enum prism_op */
};

#endif
