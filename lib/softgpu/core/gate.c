/* gate.c - hardware queues: streams that stand at closed gates hold one each.
 *
 * As measured on an H200 (driver 580): with n queues (CUDA_DEVICE_MAX_CONNECTIONS), n-1 closed gates leave other streams
 * alone. The n-th stalls kernels, fills, copies within the device, event records and write values of all other streams;
 * copies between host and device, host functions and stream-ordered allocation go on.
 */
#include "softgpu/core/internal.h"

void sg_queue_block(struct CUctx_st *context)
{
    pthread_mutex_lock(&sg_lock);
    context->closed_gates++;
    pthread_mutex_unlock(&sg_lock);
}

void sg_queue_unblock(struct CUctx_st *context, int64_t now_ns)
{
    pthread_mutex_lock(&sg_lock);
    if (context->closed_gates-- >= sg_profile()->connections) {
        context->opened_ns = SG_MAX(context->opened_ns, now_ns);
        pthread_cond_broadcast(&context->queue_free);
        sg_drive_again();
    }
    pthread_mutex_unlock(&sg_lock);
}

int64_t sg_queue_wait(struct CUctx_st *context, int64_t start_ns)
{
    int connections = sg_profile()->connections;
    pthread_mutex_lock(&sg_lock);
    bool stalled = context->closed_gates >= connections;
    while (context->closed_gates >= connections)
        pthread_cond_wait(&context->queue_free, &sg_lock);
    if (stalled)
        start_ns = SG_MAX(start_ns, context->opened_ns);
    pthread_mutex_unlock(&sg_lock);
    return start_ns;
}

bool sg_queue_is_free(const struct CUctx_st *context)
{
    return context->closed_gates < sg_profile()->connections;
}
