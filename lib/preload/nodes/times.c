#include "preload/nodes/times.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "preload/nodes/put.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/socket.h"

#define HELPER_NS 20000000
#define REBASE_NS NSEC_PER_SEC
#define DRAIN_NS  200000000
#define BATCH_MAX 1024
#define FIRST_TRIES 5
#define QUICK_LOOKS 100 /* a microsecond each */

struct base {
    CUevent event;
    int64_t ns;
    uint32_t users; /* entries that count from it */
    struct base *next;
};

struct times_entry {
    uint32_t index;
    CUevent pre, post; /* post NULL: the same as pre */
    bool complete;     /* post is on the stream */
    bool alone;        /* put.h */
    struct base *base;
    struct times_entry *next;
    struct stream *stream; /* of the entries in work: whose list it is on */
};

struct busy { /* streams with unresolved entries */
    struct stream **streams;
    size_t n, cap;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct busy busy;
static struct base *bases; /* newest first */
static CUevent *pool;
static struct times_entry *free_entries;
static size_t npool, pool_cap;
static CUstream own_stream;
static pthread_cond_t based = PTHREAD_COND_INITIALIZER;
static struct {
    struct msg_times head;
    struct msg_time times[BATCH_MAX];
} batch;

/* --- events --- */

static CUevent take_event(void)
{
    CUevent e;
    if (npool)
        return pool[--npool];
    CUDA_MUST(driver(cuEventCreate)(&e, CU_EVENT_DEFAULT));
    return e;
}

static void give_event(CUevent e)
{
    if (!e)
        return;
    if (npool == pool_cap) {
        pool_cap = pool_cap ? pool_cap * 2 : 256;
        pool = realloc(pool, pool_cap * sizeof(CUevent));
        if (!pool)
            abort();
    }
    pool[npool++] = e;
}

static bool finished(CUevent e)
{
    CUresult r = driver(cuEventQuery)(e);
    return r != CUDA_ERROR_NOT_READY;
}

/* --- bases --- */

/* Record on the idle stream of our own, between two readings of the host's clock. cuEventQuery and not
 * cuEventSynchronize: the time counts at which the event is seen, not when a sleeper is woken; in a row at first, since what lies between
 * the readings is the error. False: the process is ending and CUDA, which its exit handlers shut down, is gone already. */
static bool record_base(CUevent *e, int64_t *before_ns, int64_t *after_ns)
{
    CUresult r = driver(cuEventCreate)(e, CU_EVENT_DEFAULT);
    *before_ns = clock_now_ns();
    if (!r)
        r = driver(cuEventRecord)(*e, own_stream);
    if (r == CUDA_ERROR_DEINITIALIZED)
        return false;
    if (r)
        session_cuda_failed("recording a time base", (int)r);
    for (int looks = 0; !finished(*e); looks++)
        if (looks >= QUICK_LOOKS)
            nanosleep(&(struct timespec){0, 20000}, NULL);
    *after_ns = clock_now_ns();
    return true;
}

static void first_base(void)
{
    int64_t best = INT64_MAX, before, after;
    struct base *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    for (int i = 0; i < FIRST_TRIES; i++) {
        CUevent e;
        if (!record_base(&e, &before, &after))
            continue;
        CUevent worse = e;
        if (after - before < best) {
            best = after - before;
            worse = b->event;
            b->event = e;
            b->ns = before + best / 2;
        }
        if (worse)
            driver(cuEventDestroy)(worse);
    }
    pthread_mutex_lock(&lock);
    bases = b;
    pthread_cond_broadcast(&based);
    pthread_mutex_unlock(&lock);
}

static int64_t since(const struct base *b, CUevent e)
{
    float ms = 0;
    CUresult r = driver(cuEventElapsedTime)(&ms, b->event, e);
    return r ? -1 : b->ns + (int64_t)((double)ms * 1e6);
}

/* Bases that nothing counts from any more; the newest stays. lock held. */
static void drop_bases(void)
{
    for (struct base **at = &bases->next; *at;) {
        struct base *b = *at;
        if (b->users) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        driver(cuEventDestroy)(b->event);
        free(b);
    }
}

/* False: CUDA is gone. */
static bool rebase(void)
{
    int64_t before, after;
    struct base *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    if (!record_base(&b->event, &before, &after)) {
        free(b);
        return false;
    }
    b->ns = since(bases, b->event);
    if (b->ns < before)
        b->ns = before;
    if (b->ns > after)
        b->ns = after;
    pthread_mutex_lock(&lock);
    b->next = bases;
    bases = b;
    drop_bases();
    pthread_mutex_unlock(&lock);
    return true;
}

/* --- entries --- */

static void append(struct stream *s, struct times_entry *t)
{
    if (s->times_tail) {
        s->times_tail->next = t;
        s->times_tail = t;
        return;
    }
    s->times_head = s->times_tail = t;
    if (busy.n == busy.cap) {
        busy.cap = busy.cap ? busy.cap * 2 : 32;
        busy.streams = realloc(busy.streams, busy.cap * sizeof *busy.streams);
        if (!busy.streams)
            abort();
    }
    busy.streams[busy.n++] = s;
}

static struct times_entry *take_entry(void)
{
    struct times_entry *t = free_entries;
    if (t)
        free_entries = t->next;
    else if (!(t = malloc(sizeof *t)))
        abort();
    memset(t, 0, sizeof *t);
    return t;
}

static struct times_entry *begin(struct stream *s, uint32_t index)
{
    if (!session.record_times || streams_is_capturing(s->handle))
        return NULL;
    pthread_mutex_lock(&lock);
    struct times_entry *t = take_entry();
    t->index = index;
    t->alone = put_is_alone(s);
    t->pre = take_event();
    t->base = bases;
    t->base->users++;
    append(s, t);
    CUDA_MUST(driver(cuEventRecord)(t->pre, s->handle));
    return t; /* lock stays held */
}

struct times_entry *times_begin(struct stream *s, uint32_t index)
{
    struct times_entry *t = begin(s, index);
    if (t)
        pthread_mutex_unlock(&lock);
    return t;
}

void times_end(struct stream *s, struct times_entry *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&lock);
    t->post = take_event();
    CUDA_MUST(driver(cuEventRecord)(t->post, s->handle));
    t->complete = true;
    pthread_mutex_unlock(&lock);
}

void times_point(struct stream *s, uint32_t index)
{
    struct times_entry *t = begin(s, index);
    if (!t)
        return;
    t->complete = true;
    pthread_mutex_unlock(&lock);
}

static void send_batch(void)
{
    if (!batch.head.count)
        return;
    size_t size = sizeof batch.head + batch.head.count * sizeof *batch.times;
    batch.head.h = (struct msg_header){MSG_TIMES, (uint32_t)size};
    socket_send(&batch, size);
    batch.head.count = 0;
}

static void resolve(struct times_entry *t)
{
    int64_t pre = since(t->base, t->pre);
    int64_t post = t->post ? since(t->base, t->post) : pre;
    if (pre >= 0 && post >= 0) {
        batch.times[batch.head.count++] = (struct msg_time){.index = t->index, .alone = t->alone, .pre_ns = pre, .post_ns = post};
        if (batch.head.count == BATCH_MAX)
            send_batch();
    }
    t->base->users--;
    give_event(t->pre);
    give_event(t->post);
    t->next = free_entries;
    free_entries = t;
}

/* True when the stream has no entries left. */
static bool resolve_stream(struct stream *s)
{
    while (s->times_head) {
        struct times_entry *t = s->times_head;
        if (!t->complete || !finished(t->post ? t->post : t->pre))
            return false;
        s->times_head = t->next;
        resolve(t);
    }
    s->times_tail = NULL;
    return true;
}

bool times_flush(void)
{
    if (!session.record_times || !bases)
        return true;
    pthread_mutex_lock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < busy.n; i++)
        if (!resolve_stream(busy.streams[i]))
            busy.streams[kept++] = busy.streams[i];
    busy.n = kept;
    send_batch();
    pthread_mutex_unlock(&lock);
    return !kept;
}

void times_drain(void)
{
    for (int64_t until = clock_now_ns() + DRAIN_NS; !times_flush() && clock_now_ns() < until;)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* --- the helper thread --- */

/* In emulation a host that computes for long without an operation sends nothing else: prismd would take it for one that stands. */
static void tell_moves(void)
{
    struct msg_times none = {.h = {MSG_TIMES, sizeof none}};
    if (__atomic_exchange_n(&session.moves, false, __ATOMIC_RELAXED))
        socket_send(&none, sizeof none);
}

static void *help(void *unused)
{
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    frame.depth = 1; /* nothing from here is the program's */
    CUDA_MUST(driver(cuCtxSetCurrent)(session.context));
    driver(cuThreadExchangeStreamCaptureMode)(&relaxed);
    CUDA_MUST(driver(cuStreamCreate)(&own_stream, CU_STREAM_NON_BLOCKING));
    first_base();
    for (int64_t next = clock_now_ns() + REBASE_NS;;) {
        nanosleep(&(struct timespec){0, HELPER_NS}, NULL);
        if (session_is_off())
            return NULL;
        socket_flush();
        times_flush();
        if (clock_now_ns() < next)
            continue;
        tell_moves();
        if (!rebase())
            return NULL;
        next = clock_now_ns() + REBASE_NS;
    }
    return NULL;
}

void times_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* the program's signal handlers run on its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        session_fatal(PRISM_EXIT_SYSTEM, "rank %u: cannot start the thread that resolves timing events: %s", session.rank,
                      strerror(rc));
    pthread_detach(thread);
    pthread_mutex_lock(&lock);
    while (!bases)
        pthread_cond_wait(&based, &lock);
    pthread_mutex_unlock(&lock);
}
