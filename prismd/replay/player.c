#include "prismd/replay/player.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct player {
    struct graph_run *run;
    struct watch *beside;
    pthread_t thread;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t more;
    bool stop, begun;
    int64_t t0_ns;
    struct player_arrival *arrivals; /* owned; not played yet, in order */
    size_t narrivals, arrivals_cap;
    struct player_release *releases; /* owned; not taken yet */
    size_t nreleases, releases_cap;
    struct prism_error err;
};

/* Nodes of an iteration: from here on an arrival may set off tens of milliseconds. */
#define PLAYS_LONG 200000

bool player_plays_long(const struct graph *g, const uint32_t *as)
{
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < g->world; i++)
        if (!as || as[i] == i)
            nodes += g->ranks[i].nnodes / (g->ranks[i].niterations + 1u);
    return nodes > PLAYS_LONG;
}

static void play(struct player *p, const struct player_arrival *a)
{
    struct prism_error err = {0};
    int rc = graph_run_arrive(p->run, a->rank, a->comm, a->ordinal, a->start_ns, a->parts, a->nparts, &err);
    free(a->parts);
    if (!rc)
        return;
    pthread_mutex_lock(&p->lock);
    if (!p->err.code)
        p->err = err;
    pthread_mutex_unlock(&p->lock);
    if (p->beside)
        watch_ring(p->beside);
}

/* With the lock, which is let go meanwhile. */
static void play_all(struct player *p)
{
    while (p->narrivals && !p->stop) {
        struct player_arrival *list = p->arrivals;
        size_t n = p->narrivals;
        p->arrivals = NULL;
        p->narrivals = p->arrivals_cap = 0;
        pthread_mutex_unlock(&p->lock);
        for (size_t i = 0; i < n; i++)
            play(p, &list[i]);
        free(list);
        pthread_mutex_lock(&p->lock);
    }
}

static void *play_beside(void *arg)
{
    struct player *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->begun && !p->stop)
        pthread_cond_wait(&p->more, &p->lock);
    if (!p->stop) {
        pthread_mutex_unlock(&p->lock);
        graph_run_begin(p->run, p->t0_ns);
        pthread_mutex_lock(&p->lock);
    }
    while (!p->stop) {
        play_all(p);
        while (!p->narrivals && !p->stop)
            pthread_cond_wait(&p->more, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct player *player_create(struct graph_run *run, struct watch *beside)
{
    struct player *p = calloc(1, sizeof *p);
    sigset_t all, before;
    if (!p)
        abort();
    p->run = run;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    if (!beside)
        return p;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&p->thread, NULL, play_beside, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc)
        p->beside = beside;
    if (!rc)
        return p;
    player_destroy(p);
    return NULL;
}

void player_destroy(struct player *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_signal(&p->more);
    pthread_mutex_unlock(&p->lock);
    if (p->beside)
        pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->narrivals; i++)
        free(p->arrivals[i].parts);
    free(p->arrivals);
    free(p->releases);
    graph_run_destroy(p->run);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

bool player_is_beside(const struct player *p)
{
    return p->beside;
}

/* With the lock. */
static int failed(const struct player *p, struct prism_error *err)
{
    if (p->err.code)
        *err = p->err;
    return p->err.code ? -1 : 0;
}

int player_arrive(struct player *p, const struct player_arrival *a, struct prism_error *err)
{
    pthread_mutex_lock(&p->lock);
    p->arrivals = array_room(p->arrivals, p->narrivals, &p->arrivals_cap, sizeof *p->arrivals);
    p->arrivals[p->narrivals++] = *a;
    if (p->beside)
        pthread_cond_signal(&p->more);
    else if (p->begun)
        play_all(p);
    int rc = failed(p, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int player_begin(struct player *p, int64_t t0_ns, struct prism_error *err)
{
    pthread_mutex_lock(&p->lock);
    p->begun = true;
    p->t0_ns = t0_ns;
    if (p->beside) {
        pthread_cond_signal(&p->more);
    } else {
        pthread_mutex_unlock(&p->lock);
        graph_run_begin(p->run, t0_ns);
        pthread_mutex_lock(&p->lock);
        play_all(p);
    }
    int rc = failed(p, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

void player_released(struct player *p, const struct player_release *r)
{
    pthread_mutex_lock(&p->lock);
    p->releases = array_room(p->releases, p->nreleases, &p->releases_cap, sizeof *p->releases);
    p->releases[p->nreleases++] = *r;
    pthread_mutex_unlock(&p->lock);
    watch_ring(p->beside);
}

int64_t player_take(struct player *p, struct player_release **list, struct prism_error *err)
{
    pthread_mutex_lock(&p->lock);
    int64_t n = failed(p, err) ? -1 : (int64_t)p->nreleases;
    *list = NULL;
    if (n > 0) {
        *list = p->releases;
        p->releases = NULL;
        p->nreleases = p->releases_cap = 0;
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}
