#include "prismd/mover/copy.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/spill.h"
#include "prismd/mover/store.h"

#define BATCH_RANGES 64u
#define BATCH_BYTES  (256ull << 20) /* of several ranges; a larger range is a batch of its own */
#define BATCHES      3u             /* under way in a direction */
#define STAGE_BYTES  (16ull << 20)  /* between the device and the file */

struct job {
    struct range *range;
    struct memory memory;
    struct job *next;
};

struct batch {
    CUdeviceptr window; /* addresses of its own, BATCH_BYTES; kept */
    CUdeviceptr base;   /* where the ranges are mapped: window, or a larger place made for one range */
    uint64_t bytes;
    struct job *jobs[BATCH_RANGES];
    uint32_t n;
    CUevent done;
    int64_t began_ns;
    bool beside; /* the other direction was busy when it began */
};

/* Since the direction last had nothing to do; for the log. */
struct doings {
    int64_t began_ns, last_ns;              /* the first batch was taken; the last one was done */
    int64_t busy_ns, mapping_ns, unmapping_ns; /* the stream copied; calls took */
    uint64_t bytes, alone_bytes, beside_bytes; /* all; of batches during which the other direction did nothing, or was busy throughout */
    int64_t alone_ns, beside_ns;               /* of their copies */
    uint32_t ranges, batches, pieces;
    uint32_t handed; /* ranges into memory of ranks that left */
};

struct direction {
    enum copy_direction which;
    CUstream stream;
    struct job *first, **last; /* waiting */
    pthread_cond_t filled;
    struct batch batches[BATCHES];
    uint32_t oldest, under_way; /* the latter is read by the other direction */
    uint8_t *stage; /* pinned; made at the first use */
    struct doings doings;
};

static struct direction directions[2];

/* --- mapping --- */

static void map(struct direction *d, struct batch *b)
{
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = b->base = b->window;
    if (b->bytes > BATCH_BYTES) {
        GPU_MUST(gpu_cu(cuMemAddressReserve)(&b->base, b->bytes, 0, 0, 0));
        at = b->base;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t bytes = b->jobs[i]->range->bytes;
        struct memory *m = &b->jobs[i]->memory;
        d->doings.handed += m->handle != 0;
        if (!m->handle)
            GPU_MUST(gpu_cu(cuMemImportFromShareableHandle)(&m->handle, (void *)(intptr_t)m->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        GPU_MUST(gpu_cu(cuMemMap)(at, bytes, 0, m->handle, 0));
        at += bytes;
    }
    GPU_MUST(gpu_cu(cuMemSetAccess)(b->base, b->bytes, &access, 1));
}

void copy_release(struct memory m)
{
    if (m.handle)
        GPU_MUST(gpu_cu(cuMemRelease)(m.handle));
    close(m.fd);
}

/* To a rank that comes, or back to the device. */
static void give_up(const struct direction *d, const struct job *j)
{
    bool kept = false;
    if (d->which == COPY_OUT && j->range->plain) {
        pthread_mutex_lock(&mover_lock);
        kept = !j->range->guest->gone && hand_keep(j->memory, j->range->bytes);
        pthread_mutex_unlock(&mover_lock);
    }
    if (!kept)
        copy_release(j->memory);
}

/* cuMemUnmap is specified for one mapping; drivers take several in a row, which saves most of the cost. */
static void unmap(const struct direction *d, struct batch *b)
{
    static bool one_by_one;
    CUdeviceptr at = b->base;
    if (!one_by_one && gpu_cu(cuMemUnmap)(b->base, b->bytes) != CUDA_SUCCESS)
        __atomic_store_n(&one_by_one, true, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < b->n; i++) {
        if (one_by_one)
            GPU_MUST(gpu_cu(cuMemUnmap)(at, b->jobs[i]->range->bytes));
        at += b->jobs[i]->range->bytes;
        give_up(d, b->jobs[i]);
    }
    if (b->base != b->window)
        GPU_MUST(gpu_cu(cuMemAddressFree)(b->base, b->bytes));
}

/* --- copying --- */

static void copy_by_extents(struct direction *d, const struct range *r, CUdeviceptr at)
{
    uint64_t left = r->bytes;
    for (uint32_t i = 0; i < r->pinned.n; i++) {
        struct piece p = store_piece(r, i);
        uint64_t n = p.bytes < left ? p.bytes : left;
        d->doings.pieces++;
        if (d->which == COPY_OUT)
            GPU_MUST(gpu_cu(cuMemcpyDtoHAsync)(p.host, at, n, d->stream));
        else
            GPU_MUST(gpu_cu(cuMemcpyHtoDAsync)(at, p.host, n, d->stream));
        at += n;
        left -= n;
    }
}

static void make_stage(struct direction *d)
{
    void *p;
    if (d->stage)
        return;
    GPU_MUST(gpu_cu(cuMemHostAlloc)(&p, STAGE_BYTES, CU_MEMHOSTALLOC_PORTABLE));
    d->stage = p;
}

/* Piece by piece through the stage. The disk is slower than the device by far, so nothing here is overlapped. */
static void copy_by_file(struct direction *d, struct range *r, CUdeviceptr at)
{
    struct spill_sum *sum = spill_sum_begin();
    make_stage(d);
    for (uint64_t done = 0, n; done < r->bytes; done += n) {
        n = r->bytes - done < STAGE_BYTES ? r->bytes - done : STAGE_BYTES;
        if (d->which == COPY_OUT) {
            GPU_MUST(gpu_cu(cuMemcpyDtoHAsync)(d->stage, at + done, n, d->stream));
            GPU_MUST(gpu_cu(cuStreamSynchronize)(d->stream));
            spill_write(r, done, d->stage, n, sum);
        } else {
            spill_read(r, done, d->stage, n, sum);
            GPU_MUST(gpu_cu(cuMemcpyHtoDAsync)(at + done, d->stage, n, d->stream));
            GPU_MUST(gpu_cu(cuStreamSynchronize)(d->stream));
        }
    }
    if (d->which == COPY_OUT)
        r->hash = spill_sum_end(sum);
    else
        spill_check(r, sum);
}

/* Where the range goes to, or lies: in the pool or in the file. */
static void find_place(struct direction *d, struct range *r)
{
    pthread_mutex_lock(&mover_lock);
    if (d->which == COPY_IN)
        store_await_writing(r);
    else if (!store_take(r))
        spill_take(r);
    pthread_mutex_unlock(&mover_lock);
}

static bool is_busy(int which)
{
    return __atomic_load_n(&directions[which].under_way, __ATOMIC_RELAXED);
}

static void issue(struct direction *d, struct batch *b)
{
    int64_t before = clock_now_ns();
    b->beside = is_busy(!d->which);
    map(d, b);
    b->began_ns = clock_now_ns();
    d->doings.mapping_ns += b->began_ns - before;
    CUdeviceptr at = b->base;
    for (uint32_t i = 0; i < b->n; i++) {
        struct range *r = b->jobs[i]->range;
        find_place(d, r);
        if (r->pinned.n)
            copy_by_extents(d, r, at);
        else
            copy_by_file(d, r, at);
        at += r->bytes;
    }
    GPU_MUST(gpu_cu(cuEventRecord)(b->done, d->stream));
}

/* --- the end of a copy --- */

static void tell_copied(const struct direction *d, struct job *j, const struct batch *b, int64_t now)
{
    struct range *r = j->range;
    struct guest *g = r->guest;
    struct mover_message m = {.type = MOVER_COPIED, .rank = g->rank, .range = r->number, .bytes = r->bytes};
    if (!g->moved || b->began_ns < g->first_ns)
        g->first_ns = b->began_ns;
    g->last_ns = now;
    g->moved += r->bytes;
    g->moved_ranges++;
    if (d->which == COPY_IN)
        guest_drop_range(r);
    else if (r->pinned.n)
        store_keep(r);
    else
        r->place = RANGE_DISK;
    outlet_send(&g->outlet, &m);
    guest_job_ended(g);
}

static void count_batch(struct direction *d, const struct batch *b, int64_t done_ns, int64_t unmapped_ns)
{
    struct doings *s = &d->doings;
    int64_t copied_ns = done_ns - (b->began_ns > s->last_ns ? b->began_ns : s->last_ns);
    bool beside = is_busy(!d->which);
    s->busy_ns += copied_ns;
    if (beside && b->beside) {
        s->beside_bytes += b->bytes;
        s->beside_ns += copied_ns;
    } else if (!beside && !b->beside) {
        s->alone_bytes += b->bytes;
        s->alone_ns += copied_ns;
    }
    s->last_ns = done_ns;
    s->unmapping_ns += unmapped_ns - done_ns;
    s->bytes += b->bytes;
    s->ranges += b->n;
    s->batches++;
}

static void tell_doings(struct direction *d)
{
    struct doings *s = &d->doings;
    if (s->bytes)
        log_debug("%s alone: %.3f GB in %.4f s; beside the other way: %.3f GB in %.4f s", d->which == COPY_OUT ? "out" : "in",
                  (double)s->alone_bytes / 1e9, (double)s->alone_ns / 1e9, (double)s->beside_bytes / 1e9, (double)s->beside_ns / 1e9);
    if (s->bytes)
        log_debug("%s: %u ranges (%u into memory of ranks that left) in %u batches and %u pieces, %.2f GB in %.3f s; the stream copied %.3f s; mapping took %.3f s, unmapping %.3f s",
                  d->which == COPY_OUT ? "out" : "in", s->ranges, s->handed, s->batches, s->pieces, (double)s->bytes / 1e9,
                  (double)(s->last_ns - s->began_ns) / 1e9, (double)s->busy_ns / 1e9, (double)s->mapping_ns / 1e9,
                  (double)s->unmapping_ns / 1e9);
    *s = (struct doings){0};
}

static void finish_oldest(struct direction *d)
{
    struct batch *b = &d->batches[d->oldest];
    GPU_MUST(gpu_cu(cuEventSynchronize)(b->done));
    int64_t now = clock_now_ns();
    unmap(d, b);
    count_batch(d, b, now, clock_now_ns());
    pthread_mutex_lock(&mover_lock);
    for (uint32_t i = 0; i < b->n; i++) {
        tell_copied(d, b->jobs[i], b, now);
        free(b->jobs[i]);
    }
    pthread_mutex_unlock(&mover_lock);
    d->oldest = (d->oldest + 1) % BATCHES;
    __atomic_fetch_sub(&d->under_way, 1, __ATOMIC_RELAXED);
}

/* --- the thread --- */

/* What waits, up to a batch; ranks that are gone are not copied any more. Waits for something if `wait`. */
static bool take_waiting(struct direction *d, struct batch *b, bool wait)
{
    b->n = 0;
    b->bytes = 0;
    pthread_mutex_lock(&mover_lock);
    if (!d->first && wait)
        tell_doings(d);
    for (;;) {
        while (!d->first && wait && !b->n)
            pthread_cond_wait(&d->filled, &mover_lock);
        struct job *j = d->first;
        if (!j || b->n == BATCH_RANGES || (b->n && b->bytes + j->range->bytes > BATCH_BYTES))
            break;
        if (!(d->first = j->next))
            d->last = &d->first;
        if (j->range->guest->gone) {
            copy_release(j->memory);
            guest_job_ended(j->range->guest);
            free(j);
            continue;
        }
        b->jobs[b->n++] = j;
        b->bytes += j->range->bytes;
    }
    pthread_mutex_unlock(&mover_lock);
    if (b->n && !d->doings.began_ns)
        d->doings.began_ns = clock_now_ns();
    return b->n;
}

static void *run(void *arg)
{
    struct direction *d = arg;
    gpu_use();
    GPU_MUST(gpu_cu(cuStreamCreate)(&d->stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < BATCHES; i++) {
        GPU_MUST(gpu_cu(cuEventCreate)(&d->batches[i].done, CU_EVENT_DISABLE_TIMING));
        GPU_MUST(gpu_cu(cuMemAddressReserve)(&d->batches[i].window, BATCH_BYTES, 0, 0, 0));
    }
    for (;;) {
        struct batch *b = &d->batches[(d->oldest + d->under_way) % BATCHES];
        if (d->under_way == BATCHES || !take_waiting(d, b, !d->under_way)) {
            finish_oldest(d);
            continue;
        }
        issue(d, b);
        __atomic_fetch_add(&d->under_way, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

void copy_queue(enum copy_direction which, struct range *r, struct memory m)
{
    struct direction *d = &directions[which];
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        abort();
    *j = (struct job){.range = r, .memory = m};
    r->guest->jobs++;
    *d->last = j;
    d->last = &j->next;
    pthread_cond_signal(&d->filled);
}

void copy_begin(void)
{
    for (int i = 0; i < 2; i++) {
        struct direction *d = &directions[i];
        pthread_t thread;
        d->which = (enum copy_direction)i;
        d->last = &d->first;
        pthread_cond_init(&d->filled, NULL);
        if (pthread_create(&thread, NULL, run, d))
            mover_failed("cannot start a thread");
        pthread_detach(thread);
    }
}
