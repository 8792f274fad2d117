#include "coll/share.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "common/cores.h"

#define THREADS ((uint64_t)16)
/* What a thread is worth starting for, some milliseconds; what stays in the cache while it is copied to all places. */
#define BYTES_A_THREAD ((uint64_t)16 << 20)
#define COPY_BLOCK     ((uint64_t)64 << 10)

struct share {
    void (*f)(const void *arg, uint64_t from, uint64_t to);
    const void *arg;
    uint64_t from, to;
    pthread_t thread;
};

static void *run(void *share)
{
    const struct share *s = share;
    s->f(s->arg, s->from, s->to);
    return NULL;
}

void coll_share(uint64_t count, uint64_t block, uint64_t work, void (*f)(const void *arg, uint64_t from, uint64_t to), const void *arg)
{
    struct share shares[THREADS];
    sigset_t all, before;
    uint64_t most = work > 1 ? cores_usable() : 1, n = work < most ? work : most, started = 0;
    n = n > THREADS ? THREADS : n;
    if (n < 2) {
        f(arg, 0, count);
        return;
    }
    uint64_t each = ((count + block - 1) / block + n - 1) / n * block;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller's threads */
    for (; started + 1 < n && (started + 1) * each < count; started++) {
        struct share *s = &shares[started];
        *s = (struct share){.f = f, .arg = arg, .from = started * each, .to = (started + 1) * each};
        if (pthread_create(&s->thread, NULL, run, s))
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    f(arg, started * each, count);
    while (started)
        pthread_join(shares[--started].thread, NULL);
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
