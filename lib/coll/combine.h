/* combine.h - what a collective gives rank p, from what all ranks put in. Reductions have the order of reduce.h. */
#ifndef PRISM_COLL_COMBINE_H
#define PRISM_COLL_COMBINE_H

#include "coll/reduce.h"
#include "coll/types.h"

struct coll_operation {
    int op;   /* enum prism_op */
    int size; /* ranks of the communicator */
    int root; /* rooted operations; RECV: the sender */
    int datatype;
    int redop;                        /* reductions only */
    uint64_t count;                   /* as in the NCCL call, types.h */
    const struct coll_premul *premul; /* size factors for COLL_REDOP_PREMUL, else unread */
};

/* Fill out (coll_output_count elements) with rank p's result. inputs: size pointers; those of ranks that put nothing in
 * (broadcast's others) may be NULL. out must not overlap any input. Ranks without output: nothing is written.
 * -1 with err for an unknown operation, datatype or reduction, or p or root outside the communicator. */
int coll_combine(const struct coll_operation *op, const void *const *inputs, int p, void *out,
                 struct prism_error *err);

#endif
