#include "coll/share.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/cores.h"

#define THREADS 16u /* the caller among them */
/* By so many pieces for a thread nobody waits for one that comes late. */
#define PIECES_A_THREAD 4u
/* What a thread is worth waking for, a tenth of a millisecond; what stays in the cache while it is copied to all places. */
#define BYTES_A_THREAD ((uint64_t)1 << 20)
#define COPY_BLOCK     ((uint64_t)64 << 10)

struct shared_work {
    void (*f)(const void *arg, uint64_t from, uint64_t to);
    const void *arg;
    uint64_t count, piece;
    _Atomic uint64_t next; /* the first element that nobody has taken */
};

static struct {
    pthread_mutex_t lock; /* all below; of work, what is there before a helper joins */
    pthread_cond_t wanted_change, inside_change;
    pthread_t threads[THREADS - 1];
    uint32_t nthreads;
    bool ends;
    bool taken;       /* somebody's work is there */
    uint32_t wanted;  /* helpers that may still join */
    uint32_t inside;  /* helpers at work */
    struct shared_work work;
} helpers = {.lock = PTHREAD_MUTEX_INITIALIZER, .wanted_change = PTHREAD_COND_INITIALIZER, .inside_change = PTHREAD_COND_INITIALIZER};

static void do_pieces(struct shared_work *w)
{
    uint64_t from;
    while ((from = atomic_fetch_add_explicit(&w->next, w->piece, memory_order_relaxed)) < w->count)
        w->f(w->arg, from, w->count - from < w->piece ? w->count : from + w->piece);
}

static void *help(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&helpers.lock);
    while (!helpers.ends) {
        if (!helpers.wanted) {
            pthread_cond_wait(&helpers.wanted_change, &helpers.lock);
            continue;
        }
        helpers.wanted--;
        helpers.inside++;
        pthread_mutex_unlock(&helpers.lock);
        do_pieces(&helpers.work);
        pthread_mutex_lock(&helpers.lock);
        if (!--helpers.inside)
            pthread_cond_signal(&helpers.inside_change);
    }
    pthread_mutex_unlock(&helpers.lock);
    return NULL;
}

void coll_share_begin(uint32_t threads)
{
    sigset_t all, before;
    uint32_t n = threads ? threads : cores_usable();
    n = n < THREADS ? n : THREADS;
    helpers.ends = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller's threads */
    while (helpers.nthreads + 1 < n && !pthread_create(&helpers.threads[helpers.nthreads], NULL, help, NULL))
        helpers.nthreads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void coll_share_end(void)
{
    pthread_mutex_lock(&helpers.lock);
    helpers.ends = true;
    pthread_cond_broadcast(&helpers.wanted_change);
    pthread_mutex_unlock(&helpers.lock);
    while (helpers.nthreads)
        pthread_join(helpers.threads[--helpers.nthreads], NULL);
}

/* False: there are no helpers, or they are somebody else's. */
static bool ask_helpers(uint64_t threads, const struct shared_work *work)
{
    pthread_mutex_lock(&helpers.lock);
    bool mine = helpers.nthreads && !helpers.taken;
    if (mine) {
        helpers.taken = true;
        helpers.work.f = work->f;
        helpers.work.arg = work->arg;
        helpers.work.count = work->count;
        helpers.work.piece = work->piece;
        atomic_store_explicit(&helpers.work.next, 0, memory_order_relaxed);
        helpers.wanted = threads - 1 < helpers.nthreads ? (uint32_t)threads - 1 : helpers.nthreads;
        if (helpers.wanted == helpers.nthreads)
            pthread_cond_broadcast(&helpers.wanted_change);
        else
            for (uint32_t i = 0; i < helpers.wanted; i++)
                pthread_cond_signal(&helpers.wanted_change);
    }
    pthread_mutex_unlock(&helpers.lock);
    return mine;
}

void coll_share(uint64_t count, uint64_t block, uint64_t work, void (*f)(const void *arg, uint64_t from, uint64_t to), const void *arg)
{
    uint64_t threads = work < THREADS ? work : THREADS, pieces = threads * PIECES_A_THREAD, blocks = (count + block - 1) / block;
    const struct shared_work shared = {.f = f, .arg = arg, .count = count, .piece = (blocks + pieces - 1) / (pieces ? pieces : 1) * block};
    if (threads < 2 || count <= block || !ask_helpers(threads, &shared)) {
        f(arg, 0, count);
        return;
    }
    do_pieces(&helpers.work);
    pthread_mutex_lock(&helpers.lock);
    helpers.wanted = 0;
    while (helpers.inside)
        pthread_cond_wait(&helpers.inside_change, &helpers.lock);
    helpers.taken = false;
    pthread_mutex_unlock(&helpers.lock);
}

struct copies {
    void *const *to;
    uint32_t n;
    const char *from;
};

/* Ranges of a rank that lie one over the other are its own fault, and harm nobody else. */
static void copy_range(const void *arg, uint64_t from, uint64_t to)
{
    const struct copies *c = arg;
    for (uint64_t at = from; at < to; at += COPY_BLOCK)
        for (uint32_t i = 0; i < c->n; i++)
            memmove((char *)c->to[i] + at, c->from + at, to - at < COPY_BLOCK ? (size_t)(to - at) : COPY_BLOCK);
}

void coll_copy_to(void *const *to, uint32_t n, const void *from, uint64_t bytes)
{
    const struct copies c = {to, n, from};
    coll_share(bytes, COPY_BLOCK, bytes * n / BYTES_A_THREAD, copy_range, &c);
}
