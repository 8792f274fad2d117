/* stream.c - streams: a queue of work and one thread each, made at the first use, with a model clock. (SOFTGPU_UNTIMED: no
 * thread, unless it is given work that may sleep: driver.c.) */
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utlist.h>

#include "softgpu/core/internal.h"

#define STREAM_MAGIC 0x5347534du

pthread_mutex_t sg_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- marks --- */

static struct sg_mark *mark_create(void)
{
    struct sg_mark *mark = calloc(1, sizeof(*mark));
    if (mark)
        atomic_init(&mark->refs, 1);
    return mark;
}

struct sg_mark *sg_mark_ref(struct sg_mark *mark)
{
    atomic_fetch_add(&mark->refs, 1);
    return mark;
}

void sg_mark_unref(struct sg_mark *mark)
{
    if (mark && atomic_fetch_sub(&mark->refs, 1) == 1)
        free(mark);
}

bool sg_mark_done(struct sg_mark *mark)
{
    return atomic_load(&mark->done);
}

int64_t sg_mark_wait(struct sg_mark *mark)
{
    if (!sg_mark_done(mark) && sg_profile()->untimed) {
        pthread_mutex_lock(&sg_lock);
        sg_drive_until(mark);
        pthread_mutex_unlock(&sg_lock);
    } else if (!sg_mark_done(mark)) {
        atomic_fetch_add(&mark->waiters, 1);
        while (!sg_mark_done(mark))
            syscall(SYS_futex, &mark->done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        atomic_fetch_sub(&mark->waiters, 1);
    }
    return mark->end_ns;
}

static void mark_complete(struct sg_mark *mark, int64_t end_ns)
{
    mark->end_ns = end_ns;
    atomic_store(&mark->done, 1);
    if (atomic_load(&mark->waiters))
        syscall(SYS_futex, &mark->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    sg_mark_unref(mark);
}

void sg_item_done(struct CUstream_st *stream, int64_t end_ns)
{
    struct sg_item *item = stream->head;
    stream->end_ns = end_ns;
    LL_DELETE(stream->head, item);
    stream->items--;
    if (!stream->head)
        stream->tail = NULL;
    if (item->mark)
        mark_complete(item->mark, end_ns);
    free(item);
}

/* --- the thread --- */

static int64_t item_start(struct CUstream_st *stream, struct sg_item *item)
{
    int64_t start = SG_MAX(stream->end_ns, item->floor_ns);
    for (int i = 0; i < item->ndeps; i++) {
        int64_t end = sg_mark_wait(item->deps[i]);
        start = SG_MAX(start, end);
        sg_mark_unref(item->deps[i]);
    }
    if (sg_item_needs_queue(item) && !item->begun)
        start = sg_queue_wait(stream->context, start);
    return start;
}

static void *stream_main(void *argument)
{
    struct CUstream_st *stream = argument;
    prctl(PR_SET_TIMERSLACK, 1ul);
    prctl(PR_SET_NAME, "softgpu-stream");
    pthread_mutex_lock(&sg_lock);
    for (;;) {
        while (stream->driven || (!stream->head && !stream->closing))
            pthread_cond_wait(&stream->wake, &sg_lock);
        struct sg_item *item = stream->head;
        if (!item)
            break;
        pthread_mutex_unlock(&sg_lock);
        int64_t start = item_start(stream, item), end = start;
        if (item->fn)
            end = item->fn(item->ctx, start);
        end = SG_MAX(end, start);
        sg_sleep_until(end);
        pthread_mutex_lock(&sg_lock);
        sg_item_done(stream, end);
        sg_drive_again();
    }
    pthread_mutex_unlock(&sg_lock);
    pthread_cond_destroy(&stream->wake);
    free(stream);
    return NULL;
}

/* With sg_lock. Programs' signals are none of the stream's business: all are blocked in it. */
static CUresult start_thread(struct CUstream_st *stream)
{
    if (stream->has_thread)
        return CUDA_SUCCESS;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;
    size_t stack = SG_MAX(sg_profile()->stack_bytes, (size_t)PTHREAD_STACK_MIN);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&thread, &attributes, stream_main, stream);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    stream->has_thread = !error;
    return error ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* --- making and finding streams --- */

CUresult sg_stream_create(struct CUctx_st *context, unsigned flags, int priority, struct CUstream_st **out)
{
    static unsigned long long next_id = 3; /* 1 and 2 are handles of their own */
    struct CUstream_st *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->magic = STREAM_MAGIC;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    pthread_cond_init(&stream->wake, NULL);
    pthread_mutex_lock(&sg_lock);
    stream->id = next_id++;
    DL_APPEND(context->streams, stream);
    pthread_mutex_unlock(&sg_lock);
    *out = stream;
    return CUDA_SUCCESS;
}

/* The thread does what is queued and then frees the stream. */
CUresult sg_stream_destroy(struct CUstream_st *stream)
{
    pthread_mutex_lock(&sg_lock);
    DL_DELETE(stream->context->streams, stream);
    stream->magic = 0;
    stream->closing = true;
    bool others = stream->has_thread || stream->driven; /* who do what is queued, and free it */
    if (stream->has_thread)
        pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&sg_lock);
    if (!others) {
        pthread_cond_destroy(&stream->wake);
        free(stream);
    }
    return CUDA_SUCCESS;
}

/* Per-thread default streams: one a thread and device, ended with the thread. */
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

static void thread_streams_end(void *value)
{
    struct CUstream_st **streams = value;
    for (int i = 0; i < SG_MAX_DEVICES; i++)
        if (streams[i])
            sg_stream_destroy(streams[i]);
    free(streams);
}

static void thread_key_make(void)
{
    pthread_key_create(&thread_key, thread_streams_end);
}

static CUresult thread_stream(struct CUctx_st *context, struct CUstream_st **stream)
{
    pthread_once(&thread_once, thread_key_make);
    struct CUstream_st **streams = pthread_getspecific(thread_key);
    if (!streams) {
        streams = calloc(SG_MAX_DEVICES, sizeof(*streams));
        if (!streams)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pthread_setspecific(thread_key, streams);
    }
    CUresult result = CUDA_SUCCESS;
    if (!streams[context->device])
        result = sg_stream_create(context, CU_STREAM_DEFAULT, 0, &streams[context->device]);
    *stream = streams[context->device];
    return result;
}

CUresult sg_stream_resolve(CUstream handle, struct CUstream_st **stream)
{
    if (handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        if (handle->magic != STREAM_MAGIC)
            return CUDA_ERROR_INVALID_HANDLE;
        *stream = handle;
        return CUDA_SUCCESS;
    }
    struct CUctx_st *context;
    CUresult result = sg_context_usable(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle == CU_STREAM_PER_THREAD)
        return thread_stream(context, stream);
    *stream = context->legacy;
    return CUDA_SUCCESS;
}

/* --- order between streams --- */

/* With sg_lock: the mark of an item of a stream; NULL: no item. A new reference. */
static struct sg_mark *mark_of(struct sg_item *item)
{
    if (!item)
        return NULL;
    if (!item->mark)
        item->mark = mark_create();
    return item->mark ? sg_mark_ref(item->mark) : NULL;
}

/* Of the newest item; NULL when idle. */
static struct sg_mark *tail_mark(struct CUstream_st *stream)
{
    return mark_of(stream->tail);
}

/* The legacy stream is ordered with all blocking streams of its context, in both directions (CUDA programming guide,
 * "default stream"); non-blocking streams are ordered with none. */
static bool implicitly_ordered(const struct CUstream_st *a, const struct CUstream_st *b)
{
    return a != b && (a->legacy || b->legacy) && !((a->flags | b->flags) & CU_STREAM_NON_BLOCKING);
}

static int count_streams(struct CUstream_st *stream)
{
    if (!stream->legacy)
        return 1;
    int n = 0;
    struct CUstream_st *other;
    DL_FOREACH(stream->context->streams, other) n++;
    return n;
}

static void add_implicit_order(struct sg_item *item, struct CUstream_st *stream)
{
    struct CUstream_st *other;
    DL_FOREACH(stream->context->streams, other)
    {
        if (!implicitly_ordered(stream, other))
            continue;
        struct sg_mark *mark = tail_mark(other);
        if (mark)
            item->deps[item->ndeps++] = mark;
        else
            item->floor_ns = SG_MAX(item->floor_ns, other->end_ns);
    }
}

/* With sg_lock, released meanwhile: the queue has room for an item. CUDA too makes the caller wait, inside the call. */
static void await_room(struct CUstream_st *stream)
{
    uint64_t most = sg_profile()->queue_entries;
    struct sg_mark *mark;
    while (most && stream->items >= most && (mark = mark_of(stream->head))) {
        pthread_mutex_unlock(&sg_lock);
        sg_mark_wait(mark);
        sg_mark_unref(mark);
        pthread_mutex_lock(&sg_lock);
    }
}

CUresult sg_enqueue(struct CUstream_st *stream, enum sg_item_kind kind, sg_work_fn fn, void *ctx, struct sg_mark *extra,
                    struct sg_mark **out)
{
    if (atomic_load(&stream->capture)) {
        atomic_store(&stream->capture, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    int64_t host = sg_host_now();
    pthread_mutex_lock(&sg_lock);
    await_room(stream);
    size_t room = (size_t)count_streams(stream) + 2;
    struct sg_item *item = calloc(1, sizeof(*item) + room * sizeof(item->deps[0]));
    struct sg_mark *mark = item && out ? mark_create() : NULL;
    bool driven = sg_profile()->untimed && !stream->has_thread && kind != SG_ITEM_SLEEPS && kind != SG_ITEM_QUEUED_SLEEPS;
    CUresult result = !item || (!mark && out) ? CUDA_ERROR_OUT_OF_MEMORY : driven ? CUDA_SUCCESS : start_thread(stream);
    if (result != CUDA_SUCCESS) {
        pthread_mutex_unlock(&sg_lock);
        sg_mark_unref(mark);
        free(item);
        return result;
    }
    *item = (struct sg_item){.kind = kind, .fn = fn, .ctx = ctx, .floor_ns = host, .mark = mark};
    if (extra)
        item->deps[item->ndeps++] = sg_mark_ref(extra);
    if (stream->context->loading)
        item->deps[item->ndeps++] = sg_mark_ref(stream->context->loading);
    if (!(stream->flags & CU_STREAM_NON_BLOCKING))
        add_implicit_order(item, stream);
    if (out)
        *out = sg_mark_ref(mark);
    if (stream->tail)
        stream->tail->next = item;
    else
        stream->head = item;
    stream->tail = item;
    stream->items++;
    if (driven)
        sg_drive(stream);
    else
        pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&sg_lock);
    return CUDA_SUCCESS;
}

int sg_stream_enqueue(void *handle, sg_work_fn fn, void *ctx)
{
    struct CUstream_st *stream;
    CUresult result = sg_stream_resolve(handle, &stream);
    return result != CUDA_SUCCESS ? result : sg_enqueue(stream, SG_ITEM_QUEUED_SLEEPS, fn, ctx, NULL, NULL);
}

/* --- waiting --- */

/* Wait for the newest item of stream, and if that is the legacy one of all blocking streams too; NULL: of all streams.
 * With sg_lock, which is released meanwhile. Returns the latest model end. */
static int64_t wait_streams(struct CUctx_st *context, struct CUstream_st *stream)
{
    struct CUstream_st *other;
    struct sg_mark **marks = NULL;
    int n = 0, room = 0;
    int64_t end = 0;
    DL_FOREACH(context->streams, other) room++;
    marks = calloc((size_t)room + 1, sizeof(struct sg_mark *));
    DL_FOREACH(context->streams, other)
    {
        if (stream && other != stream && !(stream->legacy && implicitly_ordered(stream, other)))
            continue;
        end = SG_MAX(end, other->end_ns);
        struct sg_mark *mark = marks ? tail_mark(other) : NULL;
        if (mark)
            marks[n++] = mark;
    }
    pthread_mutex_unlock(&sg_lock);
    for (int i = 0; i < n; i++) {
        int64_t e = sg_mark_wait(marks[i]);
        end = SG_MAX(end, e);
        sg_mark_unref(marks[i]);
    }
    free(marks);
    pthread_mutex_lock(&sg_lock);
    return end;
}

CUresult sg_stream_synchronize(struct CUstream_st *stream)
{
    int64_t entered = sg_host_now();
    pthread_mutex_lock(&sg_lock);
    int64_t end = wait_streams(stream->context, stream);
    pthread_mutex_unlock(&sg_lock);
    sg_host_waited(entered, end);
    return CUDA_SUCCESS;
}

CUresult sg_stream_query(struct CUstream_st *stream)
{
    struct CUstream_st *other;
    int64_t entered = sg_host_now(), end = 0;
    bool busy = false;
    pthread_mutex_lock(&sg_lock);
    sg_drive_once();
    DL_FOREACH(stream->context->streams, other)
    {
        if (other != stream && !(stream->legacy && implicitly_ordered(stream, other)))
            continue;
        busy |= other->tail != NULL;
        end = SG_MAX(end, other->end_ns);
    }
    pthread_mutex_unlock(&sg_lock);
    if (busy)
        return CUDA_ERROR_NOT_READY;
    if (end > entered)
        sg_host_waited(entered, end);
    return CUDA_SUCCESS;
}

void sg_context_load(struct CUctx_st *context)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    pthread_mutex_lock(&sg_lock);
    struct sg_mark *loaded = mark_create();
    context->loading = loaded;
    int64_t end = wait_streams(context, NULL);
    context->loading = NULL;
    if (loaded)
        mark_complete(loaded, end);
    pthread_mutex_unlock(&sg_lock);
    pthread_mutex_unlock(&one);
}

CUresult sg_context_synchronize(struct CUctx_st *context)
{
    int64_t entered = sg_host_now();
    pthread_mutex_lock(&sg_lock);
    int64_t end = wait_streams(context, NULL);
    pthread_mutex_unlock(&sg_lock);
    sg_host_waited(entered, end);
    return CUDA_SUCCESS;
}
