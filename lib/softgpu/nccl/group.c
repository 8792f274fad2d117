/* group.c - ncclGroupStart and ncclGroupEnd: what the calling thread collected, by communicator. */
#include <math.h>
#include <stdlib.h>

#include "softgpu/nccl/comm.h"

/* The operations of one communicator, in order. */
struct bundle {
    struct bundle *next;
    struct ncclComm *comm;
    struct work *first, **tail;
};

struct init {
    struct init *next;
    struct ncclComm *comm;
    ncclComm_t *out;
};

static _Thread_local struct {
    int depth;
    ncclResult_t result; /* the first error inside the group */
    struct bundle *bundles, **bundles_tail;
    struct init *inits, **inits_tail;
} group;

ncclResult_t sgn_group_fail(ncclResult_t result)
{
    if (group.depth > 0 && group.result == ncclSuccess)
        group.result = result;
    return result;
}

ncclResult_t sgn_group_start(void)
{
    if (group.depth++ == 0) {
        group.result = ncclSuccess;
        group.bundles_tail = &group.bundles;
        group.inits_tail = &group.inits;
    }
    return ncclSuccess;
}

ncclResult_t sgn_group_add(struct work *work)
{
    sgn_group_start(); /* so that there is one */
    struct bundle *bundle = group.bundles;
    while (bundle && bundle->comm != work->comm)
        bundle = bundle->next;
    if (!bundle) {
        bundle = calloc(1, sizeof(*bundle));
        if (!bundle) {
            free(work);
            sgn_group_fail(sgn_error(ncclSystemError, "out of memory in a group"));
            return sgn_group_end(NULL);
        }
        bundle->comm = work->comm;
        bundle->tail = &bundle->first;
        *group.bundles_tail = bundle;
        group.bundles_tail = &bundle->next;
    }
    *bundle->tail = work;
    bundle->tail = &work->next;
    return sgn_group_end(NULL);
}

ncclResult_t sgn_group_add_init(struct ncclComm *comm, ncclComm_t *out)
{
    struct init *init = calloc(1, sizeof(*init));
    if (!init)
        return sgn_error(ncclSystemError, "out of memory in a group");
    sgn_group_start();
    *init = (struct init){NULL, comm, out};
    *group.inits_tail = init;
    group.inits_tail = &init->next;
    return sgn_group_end(NULL);
}

/* One communicator was made in this group: wait for it if it is a blocking one. */
static ncclResult_t finish_init(struct init *init)
{
    if (!init->comm->blocking)
        return ncclInProgress;
    ncclResult_t result = sgn_comm_wait_ready(init->comm);
    if (result != ncclSuccess) {
        *init->out = NULL;
        sgn_reader_forget(init->comm);
        sgn_comm_unref(init->comm);
    }
    return result;
}

static ncclResult_t finish_inits(struct init *inits)
{
    ncclResult_t result = ncclSuccess;
    while (inits) {
        struct init *next = inits->next;
        ncclResult_t one = finish_init(inits);
        if (result == ncclSuccess || (result == ncclInProgress && one != ncclSuccess))
            result = one;
        free(inits);
        inits = next;
    }
    return result;
}

static void drop(struct bundle *bundle)
{
    while (bundle->first) {
        struct work *next = bundle->first->next;
        free(bundle->first);
        bundle->first = next;
    }
}

/* Seconds that a bundle would take with idle links and nobody late. */
static double estimate(const struct bundle *bundle)
{
    static const double alone[SGN_CLASSES] = {1, 1, 1};
    const struct ncclComm *comm = bundle->comm;
    double busy = 0, end = 0, out[SGN_CLASSES] = {0}, in[SGN_CLASSES] = {0};
    for (const struct work *work = bundle->first; work; work = work->next) {
        const struct sgn_task *task = &work->task;
        if (task->kind == SGN_SEND || task->kind == SGN_RECV) {
            enum sgn_class link = sgn_link_class(comm->places[comm->rank], comm->places[task->peer]);
            double *bytes = task->kind == SGN_SEND ? &out[link] : &in[link];
            *bytes += (double)(task->in_bytes + task->out_bytes);
            end = fmax(end, sgn_model_flow(link, (uint64_t)fmax(out[link], in[link]), 1));
        } else {
            end = fmax(end, busy + sgn_model_seconds(&comm->ring, task, comm->rank, alone));
            busy += sgn_model_busy(&comm->ring, task, alone);
        }
    }
    return end;
}

static ncclResult_t run(struct bundle *bundles, ncclResult_t result, ncclSimInfo_t *simulate)
{
    double seconds = 0;
    while (bundles) {
        struct bundle *next = bundles->next;
        if (simulate)
            seconds = fmax(seconds, estimate(bundles));
        if (simulate || result != ncclSuccess) {
            drop(bundles);
        } else {
            result = sgn_batch_launch(bundles->comm, bundles->first);
        }
        free(bundles);
        bundles = next;
    }
    if (simulate)
        simulate->estimatedTime = (float)(seconds * 1e6);
    return result;
}

ncclResult_t sgn_group_end(ncclSimInfo_t *simulate)
{
    if (group.depth == 0)
        return sgn_error(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0)
        return ncclSuccess;
    struct init *inits = group.inits;
    struct bundle *bundles = group.bundles;
    ncclResult_t result = group.result;
    group.inits = NULL;
    group.bundles = NULL;
    ncclResult_t made = finish_inits(inits);
    if (result == ncclSuccess)
        result = made;
    ncclResult_t ran = run(bundles, result == ncclInProgress ? ncclSuccess : result, simulate);
    return ran != ncclSuccess ? ran : result;
}
