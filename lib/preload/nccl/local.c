#include "preload/nccl/local.h"

#include <cuda.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "preload/nodes/put.h"

static void copy(const void *from, void *to, uint64_t bytes, cudaStream_t stream)
{
    if (!bytes || from == to)
        return;
    put_note((CUstream)stream);
    residence_hold();
    CUDA_MUST(driver(cuMemcpyAsync)((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, (CUstream)stream));
    residence_let_go();
}

/* The k-th receive gets what the k-th send sends. */
static const struct operation *send_of(const struct operation *o, uint32_t n, uint32_t receive)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < receive; i++)
        before += o[i].op == PRISM_OP_RECV;
    for (uint32_t i = 0; i < n; i++)
        if (o[i].op == PRISM_OP_SEND && !before--)
            return &o[i];
    return NULL;
}

bool local_issue(struct comm *c, const struct operation *o, uint32_t n)
{
    if (c->size != 1)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (o[i].own.used)
            return false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bytes = o[i].count * coll_datatype_size(o[i].datatype);
        const struct operation *from = o[i].op == PRISM_OP_RECV ? send_of(o, n, i) : &o[i];
        if (!from)
            session_fatal(PRISM_EXIT_UNSUPPORTED,
                          "rank %u: a receive from itself on communicator %u has no send in the same group; NCCL would "
                          "wait forever", session.rank, c->number);
        if (o[i].op != PRISM_OP_SEND)
            copy(from->send, o[i].recv, bytes, o[i].stream);
    }
    return true;
}
