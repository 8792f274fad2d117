/* eval_threads.c - several threads, each with ranks of its own, and what they tell each other. */
#include <stdlib.h>
#include <string.h>

#include "graph/eval_private.h"

#define POST_AT 256u /* messages; fewer are kept until the thread has nothing else to do */

static void box_add(struct eval_box *b, const struct eval_message *list, uint32_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->list = realloc(b->list, b->cap * sizeof *b->list);
        if (!b->list)
            abort();
    }
    memcpy(b->list + b->n, list, n * sizeof *list);
    b->n += n;
}

static void flush(struct eval_thread *t, uint32_t to)
{
    struct eval_thread *other = &t->e->threads[to];
    if (!t->out[to].n)
        return;
    pthread_mutex_lock(&t->e->lock);
    box_add(&other->in, t->out[to].list, t->out[to].n);
    pthread_cond_signal(&other->wake);
    pthread_mutex_unlock(&t->e->lock);
    t->out[to].n = 0;
}

void eval_post(struct eval_thread *t, uint32_t to, uint32_t line, int64_t value)
{
    struct eval_message m = {value, line};
    box_add(&t->out[to], &m, 1);
    if (t->out[to].n >= POST_AT)
        flush(t, to);
}

/* All idle and nothing on the way: the end. Under the lock. */
static bool all_done(struct graph_eval *e)
{
    for (uint32_t i = 0; i < e->nthreads; i++)
        if (e->threads[i].in.n)
            return false;
    return e->idle == e->nthreads;
}

static bool take_messages(struct eval_thread *t)
{
    struct graph_eval *e = t->e;
    pthread_mutex_lock(&e->lock);
    e->idle++;
    while (!t->in.n && !e->done) {
        if (all_done(e)) {
            e->done = true;
            for (uint32_t i = 0; i < e->nthreads; i++)
                pthread_cond_signal(&e->threads[i].wake);
        } else {
            pthread_cond_wait(&t->wake, &e->lock);
        }
    }
    e->idle--;
    struct eval_box empty = t->taken;
    t->taken = t->in;
    empty.n = 0;
    t->in = empty;
    pthread_mutex_unlock(&e->lock);
    return t->taken.n > 0;
}

static void *thread_main(void *ctx)
{
    struct eval_thread *t = ctx;
    do {
        for (uint32_t i = 0; i < t->taken.n; i++)
            eval_feed(t, t->taken.list[i].line, t->taken.list[i].value);
        eval_drain(t);
        for (uint32_t i = 0; i < t->e->nthreads; i++)
            flush(t, i);
    } while (take_messages(t));
    return NULL;
}

void eval_run(struct graph_eval *e, int64_t t0_ns)
{
    for (uint32_t i = 0; i < e->nthreads; i++)
        eval_begin(&e->threads[i], t0_ns);
    for (uint32_t i = 1; i < e->nthreads; i++)
        if (pthread_create(&e->threads[i].thread, NULL, thread_main, &e->threads[i]))
            abort();
    thread_main(&e->threads[0]);
    for (uint32_t i = 1; i < e->nthreads; i++)
        pthread_join(e->threads[i].thread, NULL);
}
