#include "trace/crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "common/cores.h"

#define THREADS 16

struct list { /* first in, first out */
    struct crew_job *head, **tail;
};

struct crew {
    const struct crew_work *work;
    void *ctx;
    pthread_t threads[THREADS];
    int nthreads;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t more;
    struct list fresh; /* not begun */
    struct list open;  /* with pieces that no one has claimed */
    bool stop;
};

static void append(struct list *l, struct crew_job *job)
{
    job->next = NULL;
    *l->tail = job;
    l->tail = &job->next;
}

static struct crew_job *take(struct list *l)
{
    struct crew_job *job = l->head;
    l->head = job->next;
    if (!l->head)
        l->tail = &l->head;
    return job;
}

/* Locked on entry and on return, not while it works; here and below. */
static void do_piece(struct crew *c)
{
    struct crew_job *job = c->open.head;
    uint32_t number = job->claimed++;
    if (job->claimed == job->pieces)
        take(&c->open);
    pthread_mutex_unlock(&c->lock);
    c->work->piece(c->ctx, job, number);
    pthread_mutex_lock(&c->lock);
    if (--job->left)
        return;
    pthread_mutex_unlock(&c->lock);
    c->work->end(c->ctx, job);
    pthread_mutex_lock(&c->lock);
}

static void do_begin(struct crew *c)
{
    struct crew_job *job = take(&c->fresh);
    pthread_mutex_unlock(&c->lock);
    uint32_t pieces = c->work->begin(c->ctx, job);
    if (!pieces)
        c->work->end(c->ctx, job);
    pthread_mutex_lock(&c->lock);
    if (!pieces)
        return;
    job->pieces = job->left = pieces;
    job->claimed = 0;
    append(&c->open, job);
    pthread_cond_broadcast(&c->more);
}

static bool do_something(struct crew *c)
{
    if (c->open.head)
        do_piece(c);
    else if (c->fresh.head)
        do_begin(c);
    else
        return false;
    return true;
}

static void *run(void *crew)
{
    struct crew *c = crew;
    pthread_mutex_lock(&c->lock);
    while (do_something(c) || !c->stop)
        if (!c->open.head && !c->fresh.head && !c->stop)
            pthread_cond_wait(&c->more, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static int threads(int asked)
{
    int n = asked ? asked : (int)cores_usable() - 1;
    return n < 1 ? 1 : n > THREADS ? THREADS : n;
}

struct crew *crew_create(const struct crew_work *work, void *ctx, int nthreads)
{
    struct crew *c = calloc(1, sizeof *c);
    sigset_t all, before;
    int n = threads(nthreads);
    if (!c)
        abort();
    c->work = work;
    c->ctx = ctx;
    c->fresh.tail = &c->fresh.head;
    c->open.tail = &c->open.head;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller's threads */
    while (c->nthreads < n && !pthread_create(&c->threads[c->nthreads], NULL, run, c))
        c->nthreads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return c;
}

void crew_submit(struct crew *c, struct crew_job *job)
{
    pthread_mutex_lock(&c->lock);
    append(&c->fresh, job);
    while (!c->nthreads && do_something(c))
        ;
    pthread_cond_signal(&c->more);
    pthread_mutex_unlock(&c->lock);
}

bool crew_help(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    bool did = do_something(c);
    pthread_mutex_unlock(&c->lock);
    return did;
}

void crew_finish(struct crew *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->more);
    while (do_something(c))
        ;
    pthread_mutex_unlock(&c->lock);
    while (c->nthreads)
        pthread_join(c->threads[--c->nthreads], NULL);
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
