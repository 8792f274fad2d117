/* vmm_async.c - frees in stream order: an event behind the last use, looked at in later calls. */
#include <stdlib.h>
#include <time.h>

#include <utlist.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "preload/memory/vmm_private.h"

struct freeing {
    CUdeviceptr address;
    uint64_t bytes;
    CUstream stream;
    CUevent event;
    struct freeing *prev, *next;
};

static struct freeing *under_way; /* in order of the calls */

static void forget(struct freeing *f)
{
    DL_DELETE(under_way, f);
    driver(cuEventDestroy)(f->event);
    free(f);
}

void vmm_reclaim_locked(void)
{
    struct freeing *f, *next;
    DL_FOREACH_SAFE(under_way, f, next)
    {
        if (driver(cuEventQuery)(f->event) == CUDA_ERROR_NOT_READY)
            continue;
        vmm_free_locked(f->address);
        forget(f);
    }
}

void vmm_reclaim(void)
{
    if (!residence_is_on())
        return;
    residence_lock_free();
    vmm_reclaim_locked();
    residence_unlock();
}

/* CUDA too waits for memory on its way back before it says that there is none. */
bool vmm_await_frees(void)
{
    if (!under_way)
        return false;
    while (under_way) {
        residence_unlock();
        nanosleep(&(struct timespec){0, 200000}, NULL); /* another thread may destroy the event */
        residence_lock_present();
        vmm_reclaim_locked();
    }
    return true;
}

/* Memory that this stream frees is this stream's to use: what it did before is done by then. The per-thread handle names
 * other streams in other threads. */
static bool reuse(CUdeviceptr *address, uint64_t bytes, CUstream stream)
{
    struct freeing *f;
    if (stream == CU_STREAM_PER_THREAD)
        return false;
    DL_FOREACH(under_way, f)
    {
        if (f->stream != stream || f->bytes != bytes)
            continue;
        *address = f->address;
        forget(f);
        return true;
    }
    return false;
}

CUresult vmm_alloc_async(CUdeviceptr *address, uint64_t bytes, CUstream stream)
{
    residence_lock_present();
    bool reused = reuse(address, bytes, stream);
    residence_unlock();
    return reused ? CUDA_SUCCESS : vmm_alloc(address, bytes);
}

bool vmm_free_async(CUdeviceptr address, CUstream stream, CUresult *result)
{
    CUdeviceptr base;
    uint64_t bytes;
    residence_lock();
    bool ours = vmm_find_allocation(address, &base, &bytes) && base == address;
    residence_unlock();
    if (!ours)
        return false;
    struct freeing *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    *f = (struct freeing){.address = address, .bytes = bytes, .stream = stream};
    CUDA_MUST(driver(cuEventCreate)(&f->event, CU_EVENT_DISABLE_TIMING));
    *result = driver(cuEventRecord)(f->event, stream); /* without the lock: the stream's queue may be full */
    residence_lock();
    DL_APPEND(under_way, f);
    if (*result)
        forget(f);
    residence_unlock();
    return true;
}
