#include "prismd/assistant/ring.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "coll/synthetic.h"
#include "common/error.h"
#include "prismd/assistant/answer.h"

#define PLACES (ORDER_AHEAD + 2) /* one in use, one for an order that nobody foresaw */

enum state {
    FREE,    /* its calls may still be running: `used` tells */
    WAITING, /* for the loader */
    LOADING,
    READY,
    TAKEN
};

struct ring_place {
    enum state state;
    uint64_t number;                /* counts what was foreseen: the oldest matching place is the one meant */
    struct order_segment *segments; /* owned */
    uint32_t nsegments;
    uint64_t bytes;
    void *host; /* pinned: what segments bring, one behind the other */
    size_t host_size;
    struct gpu_buffer device;
    CUevent loaded, used;
    bool was_used;
};

struct ring {
    struct payload_reader *payloads; /* borrowed */
    struct order_counts *counts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t loader;
    bool stopping;
    struct ring_place places[PLACES];
    uint64_t foreseen;
    CUstream copies;
};

static void grow_host(struct ring_place *p, size_t size)
{
    if (size <= p->host_size)
        return;
    /* What it had stays until the process ends, as with gpu_buffer_grow. */
    p->host_size += p->host_size / 2;
    if (p->host_size < size + size / 4)
        p->host_size = size + size / 4;
    GPU_MUST(gpu_cu(cuMemAllocHost)(&p->host, p->host_size));
}

static bool is_synthetic(const struct order_segment *s)
{
    return s->key.role == ORDER_SYNTHETIC;
}

/* Bytes of host memory for it: of the pattern a block, which the device doubles. */
static uint64_t host_bytes(const struct order_segment *s)
{
    return is_synthetic(s) && s->bytes > COLL_SYNTHETIC_BLOCK ? COLL_SYNTHETIC_BLOCK : s->bytes;
}

/* Payloads are compressed as a whole: one that is only needed in part passes through `whole`. */
static void read_segments(struct ring *r, struct ring_place *p)
{
    struct prism_error err = {0};
    uint8_t *whole = NULL, *to = p->host;
    const struct payload_key *held = NULL;
    for (uint32_t i = 0; i < p->nsegments; i++) {
        const struct order_segment *s = &p->segments[i];
        if (is_synthetic(s)) {
            coll_synthetic_fill(to, host_bytes(s), (int)s->key.comm);
            to += host_bytes(s);
            continue;
        }
        int64_t size = payload_reader_size(r->payloads, s->key);
        if (size < 0 || (uint64_t)size < s->from + s->bytes)
            answer_failed(PRISM_EXIT_TRACE,
                          "rank %u: the trace has %lld bytes of payload for group %u of communicator %u "
                          "(role %u), not %llu; "
                          "capture again",
                          s->key.rank, (long long)size, s->key.ordinal, s->key.comm, s->key.role,
                          (unsigned long long)(s->from + s->bytes));
        bool direct = !s->from && s->bytes == (uint64_t)size;
        if (!direct && (!held || memcmp(held, &s->key, sizeof *held))) {
            free(whole);
            whole = malloc((size_t)size + 1);
            if (!whole)
                abort();
            held = &s->key;
            if (payload_reader_get(r->payloads, s->key, whole, (size_t)size, &err) < 0)
                answer_failed(err.code, "%s", err.text);
        }
        if (!direct)
            memcpy(to, whole + s->from, s->bytes);
        else if (payload_reader_get(r->payloads, s->key, to, (size_t)size, &err) < 0)
            answer_failed(err.code, "%s", err.text);
        to += s->bytes;
    }
    free(whole);
}

/* Segments that follow each other on the device, as they do in host memory, go in one copy. */
static void bring_segments(struct ring *r, const struct ring_place *p)
{
    const uint8_t *from = p->host;
    for (uint32_t i = 0; i < p->nsegments; i++) {
        const struct order_segment *s = &p->segments[i];
        CUdeviceptr to = p->device.device + s->to;
        uint64_t done = host_bytes(s);
        while (!is_synthetic(s) && i + 1 < p->nsegments && !is_synthetic(s + 1) && s->to + s->bytes == s[1].to) {
            done += s[1].bytes;
            s++;
            i++;
        }
        GPU_MUST(gpu_cu(cuMemcpyHtoDAsync)(to, from, done, r->copies));
        from += done;
        for (uint64_t n; is_synthetic(s) && done < s->bytes; done += n) {
            n = done < s->bytes - done ? done : s->bytes - done;
            GPU_MUST(gpu_cu(cuMemcpyDtoDAsync)(to + done, to, n, r->copies));
        }
    }
}

/* Without the lock; the place is LOADING or TAKEN. */
static void load(struct ring *r, struct ring_place *p)
{
    if (p->was_used)
        GPU_MUST(gpu_cu(cuEventSynchronize)(p->used));
    p->was_used = false;
    uint64_t covered = 0, host = 0;
    for (uint32_t i = 0; i < p->nsegments; i++) {
        covered += p->segments[i].bytes;
        host += host_bytes(&p->segments[i]);
    }
    grow_host(p, host);
    gpu_buffer_grow(&p->device, p->bytes);
    if (covered < p->bytes)
        GPU_MUST(gpu_cu(cuMemsetD8Async)(p->device.device, 0, p->bytes, r->copies));
    read_segments(r, p);
    bring_segments(r, p);
    GPU_MUST(gpu_cu(cuEventRecord)(p->loaded, r->copies));
}

static struct ring_place *oldest(struct ring *r, enum state a, enum state b)
{
    struct ring_place *best = NULL;
    for (int i = 0; i < PLACES; i++) {
        struct ring_place *p = &r->places[i];
        if ((p->state == a || p->state == b) && (!best || p->number < best->number))
            best = p;
    }
    return best;
}

static void *run_loader(void *arg)
{
    struct ring *r = arg;
    gpu_use();
    pthread_mutex_lock(&r->lock);
    while (!r->stopping) {
        struct ring_place *p = oldest(r, WAITING, WAITING);
        if (!p) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        p->state = LOADING;
        pthread_mutex_unlock(&r->lock);
        load(r, p);
        pthread_mutex_lock(&r->lock);
        p->state = READY;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct ring *ring_create(struct payload_reader *payloads, struct order_counts *counts)
{
    struct ring *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->payloads = payloads;
    r->counts = counts;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    GPU_MUST(gpu_cu(cuStreamCreate)(&r->copies, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < PLACES; i++) {
        GPU_MUST(gpu_cu(cuEventCreate)(&r->places[i].loaded, CU_EVENT_DISABLE_TIMING));
        GPU_MUST(gpu_cu(cuEventCreate)(&r->places[i].used, CU_EVENT_DISABLE_TIMING));
    }
    if (pthread_create(&r->loader, NULL, run_loader, r))
        answer_failed(PRISM_EXIT_SYSTEM, "cannot start a thread");
    return r;
}

void ring_destroy(struct ring *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->loader, NULL);
    GPU_MUST(gpu_cu(cuStreamSynchronize)(r->copies));
    for (int i = 0; i < PLACES; i++) {
        struct ring_place *p = &r->places[i];
        if (p->host)
            GPU_MUST(gpu_cu(cuMemFreeHost)(p->host));
        if (p->device.device)
            GPU_MUST(gpu_cu(cuMemFree)(p->device.device));
        GPU_MUST(gpu_cu(cuEventDestroy)(p->loaded));
        GPU_MUST(gpu_cu(cuEventDestroy)(p->used));
        free(p->segments);
    }
    GPU_MUST(gpu_cu(cuStreamDestroy)(r->copies));
    free(r);
}

/* A place for a new payload: the free one whose calls are longest over, else what was foreseen first and has
 * not come. */
static struct ring_place *claim(struct ring *r)
{
    for (;;) {
        struct ring_place *p = oldest(r, FREE, FREE);
        if (!p)
            p = oldest(r, READY, WAITING);
        if (p)
            return p;
        pthread_cond_wait(&r->changed, &r->lock);
    }
}

static void assign(struct ring *r, struct ring_place *p, const struct order_run *order)
{
    size_t n = order->nsegments * sizeof *p->segments;
    free(p->segments);
    p->segments = malloc(n + 1);
    if (!p->segments)
        abort();
    memcpy(p->segments, order_segments(order), n);
    p->nsegments = order->nsegments;
    p->bytes = order->payload_bytes;
    p->number = r->foreseen++;
}

void ring_foresee(struct ring *r, const struct order_run *order)
{
    if (!order->payload_bytes)
        return;
    pthread_mutex_lock(&r->lock);
    struct ring_place *p = claim(r);
    assign(r, p, order);
    p->state = WAITING;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static struct ring_place *find(struct ring *r, const struct order_run *order)
{
    struct ring_place *best = NULL;
    for (int i = 0; i < PLACES; i++) {
        struct ring_place *p = &r->places[i];
        if (p->state == FREE || p->state == TAKEN || p->bytes != order->payload_bytes ||
            p->nsegments != order->nsegments ||
            memcmp(p->segments, order_segments(order), order->nsegments * sizeof *p->segments))
            continue;
        if (!best || p->number < best->number)
            best = p;
    }
    return best;
}

static void count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

void ring_count_kept(struct ring *r, uint64_t bytes)
{
    count(&r->counts->hits, 1);
    count(&r->counts->kept, 1);
    count(&r->counts->payload_bytes, bytes);
}

struct ring_place *ring_take(struct ring *r, const struct order_run *order, CUstream stream)
{
    pthread_mutex_lock(&r->lock);
    struct ring_place *p = find(r, order);
    count(!p ? &r->counts->misses : p->state == READY ? &r->counts->hits : &r->counts->late, 1);
    count(&r->counts->payload_bytes, order->payload_bytes);
    bool missed = !p || p->state == WAITING;
    if (!p) {
        p = claim(r);
        assign(r, p, order);
    }
    while (p->state == LOADING)
        pthread_cond_wait(&r->changed, &r->lock);
    p->state = TAKEN;
    pthread_mutex_unlock(&r->lock);
    if (missed)
        load(r, p);
    GPU_MUST(gpu_cu(cuStreamWaitEvent)(stream, p->loaded, 0));
    return p;
}

CUdeviceptr ring_address(const struct ring_place *p)
{
    return p->device.device;
}

void ring_give(struct ring *r, struct ring_place *p, CUstream stream)
{
    GPU_MUST(gpu_cu(cuEventRecord)(p->used, stream));
    pthread_mutex_lock(&r->lock);
    p->was_used = true;
    p->state = FREE;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}
