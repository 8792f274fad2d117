/* driver.c - streams without threads, for runs that want results and not times (SOFTGPU_UNTIMED).
 *
 * One thread at a time *drives*: it does what all streams can do now, and sleeps at their closed gates. The program's threads
 * do it themselves: one that enqueues does the work at once, as far as nothing is in its way, and one that waits for a stream or
 * an event drives until that is over. So a process that stands at its gates is one sleeping thread, however many streams it has.
 *
 * A thread that leaves work behind and then does something else (it computes, or waits for a socket) has it watched: the
 * watcher, a thread of ours, drives once no call has come for WATCH_NS. It ends when it was not needed for LINGER_NS.
 * Work that may sleep for others (host functions, NCCL) never runs here: its stream gets a thread (stream.c).
 */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utlist.h>

#include "softgpu/core/internal.h"

#define GATES_MAX 127 /* FUTEX_WAITV_MAX less the bell */
#define WATCH_NS  20000000ll
#define LINGER_NS 4000000000ll /* making a thread costs more than one that sleeps */
#define POLL_MOST 500 /* times device.gate_poll_max: writers that do not wake are the exception */

enum watching { NO_WATCHER, WATCHER_IDLE, WATCHER_LOOKS };

static struct {
    struct CUstream_st *streams; /* with items to drive */
    bool driving, sleeping;      /* somebody drives; and sleeps meanwhile */
    bool again;                  /* there may be more to do */
    uint32_t bell;               /* futex of the one that sleeps */
    unsigned waiting;            /* threads that wait for `changed` */
    uint64_t calls;              /* of the program */
    enum watching watcher;
    bool watcher_drives;
} driver;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* a mark is done, or nobody drives */
static pthread_cond_t watch = PTHREAD_COND_INITIALIZER;

static void ring(void)
{
    driver.again = true;
    if (!driver.sleeping)
        return;
    driver.bell++;
    syscall(SYS_futex, &driver.bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void tell_waiting(void)
{
    if (driver.waiting)
        pthread_cond_broadcast(&changed);
}

/* --- doing what can be done --- */

static bool can_begin(struct CUstream_st *stream, struct sg_item *item)
{
    for (; item->ndeps; item->ndeps--) {
        struct sg_mark *mark = item->deps[item->ndeps - 1];
        if (!sg_mark_done(mark))
            return false;
        item->floor_ns = SG_MAX(item->floor_ns, mark->end_ns);
        sg_mark_unref(mark);
    }
    if (sg_item_needs_queue(item) && !sg_queue_is_free(stream->context))
        return false;
    item->floor_ns = SG_MAX(item->floor_ns, stream->end_ns);
    item->begun = true;
    return true;
}

/* False: it stands at a closed gate. */
static bool run_item(struct CUstream_st *stream, struct sg_item *item, int64_t *end_ns)
{
    *end_ns = item->floor_ns;
    stream->gate = NULL;
    if (item->kind == SG_ITEM_GATES)
        return sg_gates_step(item->ctx, end_ns, &stream->gate, &stream->gate_seen);
    if (item->fn)
        *end_ns = item->fn(item->ctx, item->floor_ns);
    return true;
}

/* The stream has nothing more to drive, or a thread of its own. */
static void leave(struct CUstream_st *stream)
{
    DL_DELETE2(driver.streams, stream, driven_prev, driven_next);
    stream->driven = false;
    if (stream->has_thread) {
        pthread_cond_signal(&stream->wake);
    } else if (stream->closing) {
        pthread_cond_destroy(&stream->wake);
        free(stream);
    }
}

/* At the gate of the last look, of whose word nothing new is seen: no need to let go of the lock for it. */
static bool stands_closed(const struct CUstream_st *stream, const struct sg_item *item)
{
    return item->kind == SG_ITEM_GATES && stream->gate && __atomic_load_n(stream->gate, __ATOMIC_ACQUIRE) == stream->gate_seen &&
           sg_gates_closed(item->ctx);
}

static bool advance(struct CUstream_st *stream)
{
    bool moved = false;
    while (stream->head && !stream->has_thread) {
        struct sg_item *item = stream->head;
        int64_t end;
        if (item->begun ? stands_closed(stream, item) : !can_begin(stream, item))
            return moved;
        pthread_mutex_unlock(&sg_lock);
        bool over = run_item(stream, item, &end);
        pthread_mutex_lock(&sg_lock);
        if (!over)
            return moved;
        stream->gate = NULL;
        sg_item_done(stream, SG_MAX(end, item->floor_ns));
        tell_waiting();
        moved = true;
    }
    leave(stream);
    return moved;
}

/* By the one that drives. Streams leave only here, new ones come at the end and ring. */
static void advance_all(void)
{
    struct CUstream_st *stream, *next;
    bool moved = true;
    while (moved || driver.again) {
        moved = driver.again = false;
        DL_FOREACH_SAFE2(driver.streams, stream, next, driven_next) moved |= advance(stream);
    }
}

/* At the gates, for ns at most. */
static void sleep_at_gates(int64_t ns)
{
    struct futex_waitv at[GATES_MAX + 1];
    struct CUstream_st *stream;
    unsigned n = 0;
    at[n++] = (struct futex_waitv){.val = driver.bell, .uaddr = (uintptr_t)&driver.bell, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
    DL_FOREACH2(driver.streams, stream, driven_next)
    {
        if (!stream->gate)
            continue;
        if (n > GATES_MAX) {
            ns = WATCH_NS / 20;
            break;
        }
        at[n++] = (struct futex_waitv){.val = stream->gate_seen, .uaddr = (uintptr_t)stream->gate, .flags = FUTEX_32};
    }
    int64_t until = sg_real_now() + ns;
    struct timespec limit = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    driver.sleeping = true;
    pthread_mutex_unlock(&sg_lock);
    if (syscall(SYS_futex_waitv, at, n, 0, &limit, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
        nanosleep(&(struct timespec){0, WATCH_NS / 20}, NULL);
    pthread_mutex_lock(&sg_lock);
    driver.sleeping = false;
}

static int64_t longer(int64_t ns)
{
    int64_t most = (int64_t)(sg_profile()->gate_poll_max * POLL_MOST * 1e9);
    return ns * 4 < most ? ns * 4 : most;
}

/* --- the watcher --- */

static void *watcher_main(void *unused)
{
    prctl(PR_SET_NAME, "softgpu-watch");
    pthread_mutex_lock(&sg_lock);
    while (driver.watcher != NO_WATCHER) {
        uint64_t calls = driver.calls;
        struct timespec linger;
        pthread_mutex_unlock(&sg_lock);
        nanosleep(&(struct timespec){0, WATCH_NS}, NULL);
        pthread_mutex_lock(&sg_lock);
        if (!driver.streams || driver.driving) { /* who drives now tells when it leaves something */
            driver.watcher = WATCHER_IDLE;
            clock_gettime(CLOCK_MONOTONIC, &linger);
            linger.tv_sec += LINGER_NS / 1000000000;
            while (driver.watcher == WATCHER_IDLE && !pthread_cond_clockwait(&watch, &sg_lock, CLOCK_MONOTONIC, &linger))
                ;
            if (driver.watcher == WATCHER_IDLE)
                driver.watcher = NO_WATCHER;
            continue;
        }
        if (driver.calls != calls)
            continue;
        driver.driving = driver.watcher_drives = true;
        for (int64_t ns = WATCH_NS;; ns = longer(ns)) {
            advance_all();
            if (!driver.streams || driver.calls != calls)
                break;
            sleep_at_gates(ns);
        }
        driver.driving = driver.watcher_drives = false;
        tell_waiting();
    }
    pthread_mutex_unlock(&sg_lock);
    return NULL;
}

static void have_watched(void)
{
    if (driver.watcher == WATCHER_LOOKS)
        return;
    if (driver.watcher == WATCHER_IDLE) {
        driver.watcher = WATCHER_LOOKS;
        pthread_cond_signal(&watch);
        return;
    }
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, old;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, sg_profile()->stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (!pthread_create(&thread, &attributes, watcher_main, NULL))
        driver.watcher = WATCHER_LOOKS; /* else tried again at the next call */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

/* --- the program's threads --- */

static void stop_driving(void)
{
    driver.driving = false;
    tell_waiting();
    if (driver.streams)
        have_watched();
}

static void drive_now(void)
{
    if (driver.driving) {
        ring();
        return;
    }
    driver.driving = true;
    advance_all();
    stop_driving();
}

void sg_drive(struct CUstream_st *stream)
{
    driver.calls++;
    if (!stream->driven) {
        stream->driven = true;
        DL_APPEND2(driver.streams, stream, driven_prev, driven_next);
    }
    drive_now();
}

void sg_drive_again(void)
{
    tell_waiting();
    if (driver.streams || driver.driving)
        drive_now();
}

void sg_drive_once(void)
{
    driver.calls++;
    if (driver.streams && !driver.driving)
        drive_now();
}

void sg_drive_until(struct sg_mark *mark)
{
    driver.calls++;
    while (!sg_mark_done(mark)) {
        if (driver.driving) {
            if (driver.watcher_drives)
                ring(); /* it sees that the program is back, and leaves */
            driver.waiting++;
            pthread_cond_wait(&changed, &sg_lock);
            driver.waiting--;
            continue;
        }
        driver.driving = true;
        for (int64_t ns = WATCH_NS;; ns = longer(ns)) {
            advance_all();
            if (sg_mark_done(mark))
                break;
            sleep_at_gates(ns);
        }
        stop_driving();
    }
}
