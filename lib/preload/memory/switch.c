#include "preload/memory/switch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "preload/environment.h"
#include "preload/memory/grant.h"
#include "preload/memory/keep.h"
#include "preload/memory/park.h"
#include "preload/memory/physical.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "proto/mover.h"

#define LOOK_NS       100000  /* between looks at streams that do not stand still yet */
#define LOOK_SLOW_NS  1000000 /* the same after SLOW_AFTER_NS */
#define SLOW_AFTER_NS 20000000
#define REFUSED_NS    (60 * NSEC_PER_SEC) /* the outgoing rank's memory comes free within that, or something is wrong */

static int socket_ = -1;
static const char *tied; /* atomic */
static bool stopping;    /* atomic */
static pthread_mutex_t moving = PTHREAD_MUTEX_INITIALIZER; /* held while a rank is parked and moved */

/* Ranges whose copies are under way. */
static struct range *window[SWITCH_WINDOW];
static int nwindow;

/* What a move took, for the log. */
static struct {
    int64_t began_ns, making_ns, exporting_ns, dropping_ns, waiting_ns;
    uint32_t ranges, given;
} took;

/* --- messages --- */

static void send_message(struct mover_message m, int fd, const char *text)
{
    m.rank = session.rank;
    if (mover_send(socket_, &m, fd, text) < 0 && !__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
        session_fatal(PRISM_EXIT_DAEMON, "rank %u: lost the process that moves its device memory: %s", session.rank,
                      strerror(errno));
}

void switch_send_want(uint64_t bytes, uint64_t least, uint32_t flag)
{
    send_message((struct mover_message){.type = MOVER_WANT, .bytes = bytes, .total = least, .flag = flag}, -1, NULL);
}

void switch_send_less(uint64_t bytes)
{
    send_message((struct mover_message){.type = MOVER_LESS, .bytes = bytes}, -1, NULL);
}

static void take_grant(const struct mover_message *m)
{
    residence_lock();
    grant_answer(m->bytes);
    residence_unlock();
}

/* Wait up to ns for a message that is not a GRANT; false: none came. *given: its descriptor, the caller's to close, -1 = none. */
static bool receive_with(struct mover_message *m, int *given, int64_t ns)
{
    struct pollfd p = {.fd = socket_, .events = POLLIN};
    struct timespec limit = {ns / NSEC_PER_SEC, ns % NSEC_PER_SEC};
    for (;;) {
        if (ppoll(&p, 1, &limit, NULL) <= 0)
            return false;
        int got = mover_receive(socket_, m, given, NULL, 0);
        if (got <= 0) {
            if (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
                session_fatal(PRISM_EXIT_DAEMON, "rank %u: the process that moves its device memory ended", session.rank);
            pause(); /* the process is ending */
        }
        if (m->type != MOVER_GRANT)
            return true;
        take_grant(m);
    }
}

static bool receive(struct mover_message *m, int64_t ns)
{
    int fd = -1;
    bool came = receive_with(m, &fd, ns);
    if (fd >= 0)
        close(fd);
    return came;
}

/* --- moving --- */

static _Noreturn void cannot(const char *doing, int error)
{
    const char *name = NULL;
    char text[MOVER_TEXT];
    driver(cuGetErrorName)((CUresult)error, &name);
    snprintf(text, sizeof text, "rank %u: %s: CUDA error %d (%s)", session.rank, doing, error, name ? name : "unknown");
    send_message((struct mover_message){.type = MOVER_FAILED}, -1, text);
    session_fatal(PRISM_EXIT_SYSTEM, "%s", text);
}

static void tell_took(const char *way, uint64_t bytes)
{
    log_debug("rank %u %s: %u ranges (%u in memory of ranks that left), %.2f GB in %.3f s; making %.3f, exporting %.3f, dropping %.3f, waiting for copies %.3f s",
              session.rank, way, took.ranges, took.given, (double)bytes / 1e9, (double)(clock_now_ns() - took.began_ns) / 1e9,
              (double)took.making_ns / 1e9, (double)took.exporting_ns / 1e9, (double)took.dropping_ns / 1e9,
              (double)took.waiting_ns / 1e9);
}

/* The range whose copy is done; NULL: it is none of them. */
static struct range *take_copied(const struct mover_message *m)
{
    for (int i = 0; m->type == MOVER_COPIED && i < nwindow; i++) {
        struct range *r = window[i];
        if (r->number != m->range)
            continue;
        window[i] = window[--nwindow];
        return r;
    }
    return NULL;
}

/* One copy is done: returns its range. Anything else that comes meanwhile came too late. */
static struct range *wait_copied(void)
{
    struct mover_message m;
    struct range *r = NULL;
    int64_t began = clock_now_ns();
    while (!receive(&m, NSEC_PER_SEC) || !(r = take_copied(&m)))
        ;
    took.waiting_ns += clock_now_ns() - began;
    return r;
}

static void hand_over(struct range *r, uint32_t type)
{
    int fd = -1;
    int64_t began = clock_now_ns();
    CUresult error = physical_export(r, &fd);
    took.exporting_ns += clock_now_ns() - began;
    took.ranges++;
    if (error)
        cannot("exporting device memory to be moved", error);
    send_message((struct mover_message){.type = type, .range = r->number, .bytes = r->bytes, .flag = physical_is_plain(r)}, fd, NULL);
    close(fd);
    window[nwindow++] = r;
}

static void drop_copied(void)
{
    struct range *r = wait_copied();
    int64_t began = clock_now_ns();
    physical_drop(r);
    took.dropping_ns += clock_now_ns() - began;
}

static void move_out(void)
{
    uint64_t bytes = 0;
    memset(&took, 0, sizeof took);
    took.began_ns = clock_now_ns();
    for (struct range *r = physical_first(); r; r = r->next) {
        if (nwindow == SWITCH_WINDOW)
            drop_copied();
        hand_over(r, MOVER_OUT);
        bytes += r->bytes;
    }
    while (nwindow)
        drop_copied();
    tell_took("out", bytes);
    send_message((struct mover_message){.type = MOVER_OUT_END, .bytes = bytes}, -1, NULL);
}

/* Memory that the outgoing rank gives up, if the mover has some of that size: then the copy into it is under way. */
static bool take(struct range *r)
{
    struct mover_message m;
    int fd, kept = physical_is_plain(r) ? keep_reserve(socket_) : -1;
    if (kept < 0)
        return false;
    send_message((struct mover_message){.type = MOVER_TAKE, .range = r->number, .bytes = r->bytes}, -1, NULL);
    while (fd = -1, !receive_with(&m, &fd, NSEC_PER_SEC) || m.type != MOVER_GIVEN)
        take_copied(&m);
    if (fd < 0) {
        keep_close(kept);
        return false;
    }
    keep_put(kept, fd);
    CUresult error = physical_take(r, kept);
    if (error)
        cannot("device memory of another rank for what comes back to the device", error);
    window[nwindow++] = r;
    took.ranges++;
    took.given++;
    return true;
}

/* Memory of the outgoing rank is handed on or released at this moment. */
static void bring_in(struct range *r)
{
    CUresult error = CUDA_ERROR_OUT_OF_MEMORY;
    int64_t began = clock_now_ns();
    bool given;
    for (int64_t until = began + REFUSED_NS; !(given = take(r)) && (error = physical_make(r));) {
        if (error != CUDA_ERROR_OUT_OF_MEMORY || clock_now_ns() > until)
            cannot("device memory for what comes back to the device", error);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    took.making_ns += clock_now_ns() - began;
    if (!given)
        hand_over(r, MOVER_IN);
}

static void move_in(void)
{
    uint64_t bytes = 0;
    memset(&took, 0, sizeof took);
    took.began_ns = clock_now_ns();
    for (struct range *r = physical_first(); r; r = r->next) {
        if (nwindow == SWITCH_WINDOW)
            wait_copied();
        bring_in(r);
        bytes += r->bytes;
    }
    while (nwindow)
        wait_copied();
    tell_took("in", bytes);
    residence_set(RESIDENCE_PRESENT);
    park_end();
    send_message((struct mover_message){.type = MOVER_IN_END, .bytes = bytes}, -1, NULL);
}

/* --- the thread --- */

static const char *why_tied(void)
{
    return __atomic_load_n(&tied, __ATOMIC_ACQUIRE);
}

void switch_tie(const char *why)
{
    const char *none = NULL;
    if (__atomic_compare_exchange_n(&tied, &none, why, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        log_warn("rank %u keeps its place on the device from now on, because %s", session.rank, why);
}

static void tie_for_streams(void)
{
    static char why[160];
    snprintf(why, sizeof why, "it uses %u streams, and of %u hardware queues (PRISM_QUEUES, at most 32) %u can be stopped at once",
             park_lanes(), environment_queues(), PARK_LANES(environment_queues()));
    switch_tie(why);
}

static void tell_why_not(enum park_result begun)
{
    char why[200];
    if (begun == PARK_BUSY)
        snprintf(why, sizeof why, "a call of the program is under way with the session's lock, or a stream is under capture");
    else if (!park_tell_moving(why, sizeof why) && !residence_tell_holder(why, sizeof why))
        snprintf(why, sizeof why, "it was about to");
    log_info("rank %u has not come to a stop: %s", session.rank, why);
}

/* Streams stand still and the memory is ours; false: cancelled, or the rank cannot be moved. */
static bool park(void)
{
    int64_t began = clock_now_ns();
    enum park_result begun = PARK_BUSY;
    struct mover_message m;
    while (!why_tied() && !__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
        if (begun == PARK_BUSY)
            begun = park_begin();
        if (begun == PARK_TOO_MANY)
            tie_for_streams();
        else if (begun == PARK_OK && park_still() && residence_leave())
            return true;
        bool slow = clock_now_ns() - began > SLOW_AFTER_NS;
        if (receive(&m, slow ? LOOK_SLOW_NS : LOOK_NS) && m.type == MOVER_CANCEL) {
            tell_why_not(begun);
            break;
        }
    }
    park_end();
    return false;
}

static void evict(void)
{
    int64_t began = clock_now_ns();
    pthread_mutex_lock(&moving);
    if (park()) {
        send_message((struct mover_message){.type = MOVER_PARKED, .ns = clock_now_ns() - began}, -1, NULL);
        move_out();
        residence_set(RESIDENCE_ABSENT);
    } else {
        bool ending = __atomic_load_n(&stopping, __ATOMIC_ACQUIRE);
        send_message((struct mover_message){.type = MOVER_CANCELLED, .flag = ending}, -1, NULL);
    }
    pthread_mutex_unlock(&moving);
}

static void restore(void)
{
    pthread_mutex_lock(&moving);
    residence_set(RESIDENCE_ENTERING);
    move_in();
    pthread_mutex_unlock(&moving);
}

static void *serve(void *unused)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct mover_message m;
    frame.depth = 1; /* nothing from here is the program's */
    CUDA_MUST(driver(cuCtxSetCurrent)(session.context));
    driver(cuThreadExchangeStreamCaptureMode)(&relaxed);
    for (;;) {
        if (!receive(&m, NSEC_PER_SEC))
            continue;
        if (m.type == MOVER_EVICT)
            evict();
        else if (m.type == MOVER_RESTORE)
            restore();
    }
    return NULL;
}

void switch_start(int socket)
{
    pthread_t thread;
    sigset_t all, before;
    CUdevice device;
    size_t free_bytes, total_bytes;
    socket_ = socket;
    CUDA_MUST(driver(cuCtxGetDevice)(&device));
    CUDA_MUST(driver(cuMemGetInfo)(&free_bytes, &total_bytes));
    physical_init(device);
    grant_init(total_bytes);
    park_init();
    sigfillset(&all); /* the program's signal handlers run on its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot start the thread that serves the mover: %s", session.rank,
                      strerror(rc));
    pthread_detach(thread);
    send_message((struct mover_message){.type = MOVER_CONTEXT, .ns = session.context_ns}, -1, NULL);
    __atomic_store_n(&residence_on, true, __ATOMIC_RELEASE);
}

void switch_stop(void)
{
    if (!residence_is_on())
        return;
    __atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&moving);
    pthread_mutex_unlock(&moving);
    residence_lock_present();
    residence_unlock();
}

void switch_forget(void)
{
    residence_on = false;
    keep_forget();
    if (socket_ >= 0)
        close(socket_);
    socket_ = -1;
}
