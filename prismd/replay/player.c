#include "prismd/replay/player.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"

#define KEEP 1000000 /* arrivals */

struct player {
    struct graph_run *run;             /* NULL: of what has been condensed, until the thread has made it */
    struct graph_condensed *condensed; /* owned; NULL: none, or it has left */
    struct player_replay replay;       /* with condensed: what is played when it leaves */
    struct player_arrival *told;       /* owned; with condensed: all so far; parts NULL where they are as recorded */
    size_t ntold, told_cap;
    bool forgets, warned; /* nothing is kept any more, as it never leaves */
    struct watch *beside;
    pthread_t thread;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t more;
    bool stop, begun;
    bool playing; /* the thread, just now */
    int64_t t0_ns;
    struct player_arrival *arrivals; /* owned; not played yet, in order */
    size_t narrivals, arrivals_cap;
    struct player_release *releases; /* owned; not taken yet */
    size_t nreleases, releases_cap;
    struct prism_error err;
};

/* PRISM_REPLAY, for tests: "plain"; "condensed", small worlds too. */
static bool asked_for(const char *how)
{
    const char *asked = getenv("PRISM_REPLAY");
    return asked && !strcmp(asked, how);
}

uint64_t player_nodes(const struct graph *g, const uint32_t *as)
{
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < g->world; i++)
        if (!as || as[i] == i)
            nodes += g->ranks[i].nnodes / (g->ranks[i].niterations + 1u);
    return asked_for("condensed") ? UINT64_MAX : nodes;
}

static void fail(struct player *p, const struct prism_error *err)
{
    pthread_mutex_lock(&p->lock);
    if (!p->err.code)
        p->err = *err;
    pthread_mutex_unlock(&p->lock);
    if (p->beside)
        watch_ring(p->beside);
}

static void play(struct player *p, const struct player_arrival *a)
{
    struct prism_error err = {0};
    int rc = !p->run ? 0 : graph_run_arrive(p->run, a->rank, a->comm, a->ordinal, a->start_ns, a->parts, a->nparts, &err);
    free(a->parts);
    if (rc)
        fail(p, &err);
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

/* In the thread: what was condensed has to be made first, and whoever makes it opens no gate meanwhile. */
static void begin_beside(struct player *p)
{
    struct prism_error err = {0};
    if (!p->run)
        p->run = graph_run_create(p->replay.graph, &p->replay.ops, &p->replay.options);
    if (p->run) {
        graph_run_begin(p->run, p->t0_ns);
        return;
    }
    prism_error_set(&err, PRISM_EXIT_TRACE, "the graph is not consistent; capture again");
    fail(p, &err);
}

static void *play_beside(void *arg)
{
    struct player *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->begun && !p->stop)
        pthread_cond_wait(&p->more, &p->lock);
    p->playing = true;
    if (!p->stop) {
        pthread_mutex_unlock(&p->lock);
        begin_beside(p);
        pthread_mutex_lock(&p->lock);
    }
    while (!p->stop) {
        p->playing = true;
        play_all(p);
        p->playing = false;
        while (!p->narrivals && !p->stop)
            pthread_cond_wait(&p->more, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static struct player *create(void)
{
    struct player *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    return p;
}

/* From then on the thread plays. */
static int go_beside(struct player *p, struct watch *beside)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&p->thread, NULL, play_beside, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!rc)
        p->beside = beside;
    return rc ? -1 : 0;
}

struct player *player_create(struct graph_run *run, struct watch *beside)
{
    struct player *p = create();
    p->run = run;
    if (!beside || !go_beside(p, beside))
        return p;
    player_destroy(p);
    return NULL;
}

struct player *player_create_condensed(const struct player_replay *replay)
{
    struct prism_error why = {0};
    int64_t begin = clock_now_ns();
    if (asked_for("plain"))
        return NULL;
    struct graph_condensed *c = graph_condense(replay->graph, &replay->ops, &replay->options, NULL, &why);
    if (!c) {
        log_debug("the replay is not condensed: %s", why.text);
        return NULL;
    }
    struct graph_condensed_size size = graph_condensed_size(c);
    log_debug("the replay was condensed in %.2f s: %llu weights, %llu of an iteration beyond the recorded ones%s", (double)(clock_now_ns() - begin) / 1e9,
              (unsigned long long)size.terms, (unsigned long long)size.per_loop, size.only_recorded ? " (for which it does not serve)" : "");
    struct player *p = create();
    p->condensed = c;
    p->replay = *replay;
    p->replay.ops.on_node = NULL; /* it is for who plays between looks at gates, not for the thread */
    if (!p->replay.keep)
        p->replay.keep = KEEP;
    return p;
}

/* ---- With what has been condensed: no thread, no lock ---- */

static void forget_told(struct player *p)
{
    for (size_t i = 0; i < p->ntold; i++)
        free(p->told[i].parts);
    free(p->told);
    p->told = NULL;
    p->ntold = p->told_cap = 0;
}

/* To play a long run again would take too long, and it grows for ever. */
static void look_at_limit(struct player *p)
{
    if (p->forgets || p->ntold < p->replay.keep || graph_condensed_size(p->condensed).only_recorded)
        return;
    forget_told(p);
    p->forgets = true;
}

static void keep_told(struct player *p, const struct player_arrival *a)
{
    if (p->forgets) {
        free(a->parts);
        return;
    }
    p->told = array_room(p->told, p->ntold, &p->told_cap, sizeof *p->told);
    p->told[p->ntold++] = *a;
}

/* All that has arrived is played again, by a thread. */
static int leave(struct player *p, struct prism_error *err)
{
    graph_condensed_destroy(p->condensed);
    p->condensed = NULL;
    pthread_mutex_lock(&p->lock); /* the thread waits for it, until it is known to be there */
    p->arrivals = p->told;
    p->narrivals = p->ntold;
    p->arrivals_cap = p->told_cap;
    p->told = NULL;
    p->ntold = p->told_cap = 0;
    int rc = go_beside(p, p->replay.beside);
    pthread_mutex_unlock(&p->lock);
    if (rc)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot start a thread for the replay");
    return 0;
}

static int arrive_condensed(struct player *p, const struct player_arrival *a, struct prism_error *err)
{
    struct player_arrival told = *a;
    look_at_limit(p);
    int rc = graph_condensed_arrive(p->condensed, a->rank, a->comm, a->ordinal, a->start_ns, a->parts, a->nparts, &p->err);
    if (rc == GRAPH_CONDENSED_LEFT && p->forgets) {
        if (!p->warned)
            log_warn("rank %u: from here on messages are of sizes of which others end without their receivers; they are played as in the capture", a->rank);
        p->warned = true;
        rc = graph_condensed_arrive(p->condensed, a->rank, a->comm, a->ordinal, a->start_ns, NULL, 0, &p->err);
    }
    if (rc < 0)
        *err = p->err;
    if (!rc && graph_condensed_is_recorded(p->condensed, a->rank, a->comm, a->ordinal, a->parts, a->nparts)) {
        free(told.parts);
        told.parts = NULL;
        told.nparts = 0;
    }
    keep_told(p, &told);
    return rc == GRAPH_CONDENSED_LEFT ? leave(p, err) : rc;
}

/* ---- ---- */

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
    forget_told(p);
    graph_condensed_destroy(p->condensed);
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

bool player_is_playing(struct player *p)
{
    pthread_mutex_lock(&p->lock);
    bool playing = p->beside && p->begun && (p->playing || p->narrivals);
    pthread_mutex_unlock(&p->lock);
    return playing;
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
    if (p->condensed)
        return arrive_condensed(p, a, err);
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
        if (p->condensed)
            graph_condensed_begin(p->condensed, t0_ns);
        else
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
