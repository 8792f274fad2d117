/* group.h - operations between the outermost ncclGroupStart and ncclGroupEnd of a host thread, issued as one gate per
 * communicator. An operation outside of any group is a group of its own. */
#ifndef PRISM_PRELOAD_GROUP_H
#define PRISM_PRELOAD_GROUP_H

#include <nccl.h>

#include "coll/types.h"
#include "preload/nccl/comm.h"

struct operation {
    enum prism_op op;
    struct comm *comm;
    const void *send; /* device addresses; NULL when the operation has none */
    void *recv;
    uint64_t count;
    int datatype, redop; /* as in the NCCL call */
    int peer;            /* root, destination or source; -1 none */
    cudaStream_t stream;
    struct redop own; /* what redop was at the call, if it is the program's (group_add fills it); used: it is */
};

void group_start(void);
/* Groups that the thread has begun and not ended. */
int group_depth(void);
ncclResult_t group_end(void);
/* Forget what the group has collected, as ncclGroupSimulateEnd does. */
void group_discard(void);
/* Add an operation to the thread's group, or issue it at once. */
ncclResult_t group_add(const struct operation *operation);

#endif
