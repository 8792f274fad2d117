#include "preload/gate/streams.h"

#include <stdlib.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "preload/gate/early.h"
#include "preload/gate/slots.h"

static struct stream *by_key; /* hash of the living ones */
static struct stream *first, *last;
static uint32_t next_number;
static uint32_t nblocking;
static bool captures; /* atomic */

static bool is_blocking(CUstream handle)
{
    unsigned flags = CU_STREAM_NON_BLOCKING;
    if (handle == CU_STREAM_PER_THREAD)
        return true;
    if (handle == CU_STREAM_LEGACY || driver(cuStreamGetFlags)(handle, &flags))
        return false;
    return !(flags & CU_STREAM_NON_BLOCKING);
}

static struct stream *add(struct stream_key key, CUstream handle)
{
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->key = key;
    s->handle = handle;
    s->number = next_number++;
    s->blocking = is_blocking(handle);
    nblocking += s->blocking;
    HASH_ADD(hh, by_key, key, sizeof s->key, s);
    if (last)
        last->next = s;
    else
        first = s;
    last = s;
    return s;
}

struct stream *streams_get(CUstream handle, bool per_thread)
{
    if (!handle)
        handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    struct stream_key key = {.handle = (uint64_t)(uintptr_t)handle};
    if (handle == CU_STREAM_PER_THREAD)
        key.thread = frame_host() + 1;
    struct stream *s;
    HASH_FIND(hh, by_key, &key, sizeof key, s);
    return s ? s : add(key, handle);
}

/* The record itself stays: times not resolved yet may hang on it. */
void streams_forget(CUstream handle)
{
    struct stream_key key = {.handle = (uint64_t)(uintptr_t)handle};
    struct stream *s, *before = NULL;
    HASH_FIND(hh, by_key, &key, sizeof key, s);
    if (!s)
        return;
    early_forget(s);
    HASH_DEL(by_key, s);
    nblocking -= s->blocking;
    for (struct stream *at = first; at != s; at = at->next)
        before = at;
    if (before)
        before->next = s->next;
    else
        first = s->next;
    if (last == s)
        last = before;
}

struct stream *streams_first(void)
{
    return first;
}

bool streams_is_neutral(const struct stream *s)
{
    if (s->handle == CU_STREAM_LEGACY)
        return !nblocking;
    return s->handle != CU_STREAM_PER_THREAD || s->key.thread == frame_host() + 1;
}

uint32_t streams_waiting(const struct stream *also)
{
    uint32_t n = 0;
    for (const struct stream *s = first; s; s = s->next)
        n += s == also || (s->gated && !slots_opened(s->slot, s->generation));
    return n;
}

void streams_capture_begins(void)
{
    __atomic_store_n(&captures, true, __ATOMIC_RELAXED);
}

bool streams_any_capture(void)
{
    return __atomic_load_n(&captures, __ATOMIC_RELAXED);
}

bool streams_is_capturing(CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!streams_any_capture() || handle == CU_STREAM_LEGACY)
        return false;
    return driver(cuStreamIsCapturing)(handle, &status) || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUstreamCaptureMode streams_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (streams_any_capture())
        driver(cuThreadExchangeStreamCaptureMode)(&mode);
    return mode;
}

void streams_restore(CUstreamCaptureMode mode)
{
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        driver(cuThreadExchangeStreamCaptureMode)(&mode);
}
