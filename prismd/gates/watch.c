#include "prismd/gates/watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "prismd/gates/board.h"

#define WAITV_MAX 128 /* FUTEX_WAITV_MAX */

/* So many arrivals in a row that no wake-up announced, and the writers are GPUs: from then on the thread spins. */
#define SILENT_ARRIVALS 3

/* With a board, the longest between looks: as long as every arrival has come by way of the board, and woken the thread. */
#define BOARD_POLL_NS 100000000

/* Between looks at writers that are known to wake. */
#define WOKEN_POLL_NS (NSEC_PER_SEC / 2)

struct timed_write {
    uint32_t *word;
    uint32_t value;
    int64_t at_ns;
};

struct watch {
    struct daemon *daemon;
    pthread_t thread;
    bool stop;
    int64_t poll_ns;
    int64_t all_poll_ns, look_at_all_ns; /* board: between looks at all heads; the next one */
    bool sleeping;     /* only then does the bell need to wake */
    uint32_t doorbell; /* futex: bumped when there is something new to look at */
    uint32_t silent;   /* arrivals that a sleep's time-out found, in a row */
    enum { NOT_SLEPT, WOKEN, TIMED_OUT } slept; /* how the sleep before this look ended; by the doorbell, it says nothing of writers */
    enum watch_spin spin;
    bool writers_wake;
    bool cannot_wait;  /* the kernel has no FUTEX_WAITV */
    uint32_t spinning; /* atomic: the thread reads arrive words without the lock */
    uint32_t spins;    /* atomic: it spins all the time */
    struct group **heads; /* groups that can arrive next */
    size_t nheads, heads_cap;
    struct group **due; /* binary heap by open_at_ns */
    size_t ndue, due_cap;
    struct timed_write *writes; /* few: one a communicator of an assistant */
    size_t nwrites, writes_cap;
};

static struct region_slot *slot_of(const struct group *g)
{
    return (struct region_slot *)g->rank->region + g->slot;
}

void watch_ring(struct watch *w)
{
    __atomic_add_fetch(&w->doorbell, 1, __ATOMIC_RELEASE);
    region_word_wake(&w->doorbell);
}

static void ring(struct watch *w)
{
    __atomic_add_fetch(&w->doorbell, 1, __ATOMIC_RELEASE);
    if (w->sleeping)
        region_word_wake(&w->doorbell);
}

static void heap_push(struct watch *w, struct group *g)
{
    w->due = array_room(w->due, w->ndue, &w->due_cap, sizeof *w->due);
    size_t i = w->ndue++;
    while (i && w->due[(i - 1) / 2]->open_at_ns > g->open_at_ns) {
        w->due[i] = w->due[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->due[i] = g;
}

static void heap_sift_down(struct watch *w, size_t i)
{
    struct group *g = w->due[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->ndue)
            break;
        if (child + 1 < w->ndue && w->due[child + 1]->open_at_ns < w->due[child]->open_at_ns)
            child++;
        if (w->due[child]->open_at_ns >= g->open_at_ns)
            break;
        w->due[i] = w->due[child];
        i = child;
    }
    w->due[i] = g;
}

static struct group *heap_pop(struct watch *w)
{
    struct group *first = w->due[0];
    w->due[0] = w->due[--w->ndue];
    if (w->ndue)
        heap_sift_down(w, 0);
    return first;
}

static void add_head(struct watch *w, struct group *g)
{
    w->heads = array_room(w->heads, w->nheads, &w->heads_cap, sizeof *w->heads);
    g->head = w->nheads;
    w->heads[w->nheads++] = g;
}

static void drop_head(struct watch *w, struct group *g)
{
    struct group *last = w->heads[--w->nheads];
    w->heads[g->head] = last;
    last->head = g->head;
    g->head = SIZE_MAX;
}

/* Whoever writes wakes the thread. */
static bool is_woken(const struct watch *w)
{
    return w->writers_wake && !w->cannot_wait && (w->daemon->board || w->nheads < WAITV_MAX);
}

static bool has_arrived(const struct group *g)
{
    return region_word_reached(&slot_of(g)->arrive, g->generation);
}

static void group_free(struct group *g)
{
    free(g->parts);
    free(g->sequence);
    free(g);
}

static void link_to_rank(struct group *g)
{
    g->next_of_rank = g->rank->groups;
    if (g->next_of_rank)
        g->next_of_rank->previous_of_rank = g;
    g->rank->groups = g;
}

static void unlink_from_rank(struct group *g)
{
    if (g->next_of_rank)
        g->next_of_rank->previous_of_rank = g->previous_of_rank;
    if (g->previous_of_rank)
        g->previous_of_rank->next_of_rank = g->next_of_rank;
    else
        g->rank->groups = g->next_of_rank;
}

void watch_add(struct watch *w, struct group *g)
{
    struct rank *r = g->rank;
    if (g->stream >= r->nstreams) {
        uint32_t n = g->stream + 1;
        r->streams = realloc(r->streams, n * sizeof *r->streams);
        r->stream_tails = realloc(r->stream_tails, n * sizeof *r->stream_tails);
        if (!r->streams || !r->stream_tails)
            abort();
        memset(r->streams + r->nstreams, 0, (n - r->nstreams) * sizeof *r->streams);
        memset(r->stream_tails + r->nstreams, 0, (n - r->nstreams) * sizeof *r->stream_tails);
        r->nstreams = n;
    }
    link_to_rank(g);
    if (r->streams[g->stream]) {
        r->stream_tails[g->stream]->next_on_stream = g;
        r->stream_tails[g->stream] = g;
        if (!g->early)
            return;
        add_head(w, g);
        ring(w);
        return;
    }
    r->streams[g->stream] = r->stream_tails[g->stream] = g;
    add_head(w, g);
    if (w->daemon->board && !has_arrived(g)) { /* it will tell */
        if (w->nheads == 1)
            ring(w); /* while nothing can arrive, the thread sleeps for a second */
        return;
    }
    board_mark(w->daemon, r);
    ring(w);
}

void watch_open_at(struct watch *w, struct group *g, int64_t ns)
{
    g->open_at_ns = ns;
    heap_push(w, g);
    ring(w);
}

static void heap_order(struct watch *w)
{
    for (size_t i = w->ndue / 2; i-- > 0;)
        heap_sift_down(w, i);
}

void watch_delay_rank(struct watch *w, const struct rank *r, int64_t ns)
{
    for (size_t i = 0; i < w->ndue; i++)
        if (w->due[i]->rank == r) {
            w->due[i]->open_at_ns += ns;
            w->due[i]->started_ns += ns;
            w->due[i]->end_ns += ns;
        }
    heap_order(w);
}

static void raise_word(uint32_t *word, uint32_t value)
{
    if (!region_word_reached(word, value))
        region_word_set(word, value);
}

void watch_write_at(struct watch *w, uint32_t *word, uint32_t value, int64_t ns)
{
    if (ns <= clock_now_ns()) {
        raise_word(word, value);
        return;
    }
    w->writes = array_room(w->writes, w->nwrites, &w->writes_cap, sizeof *w->writes);
    w->writes[w->nwrites++] = (struct timed_write){word, value, ns};
    ring(w);
}

void watch_drop_writes(struct watch *w)
{
    w->nwrites = 0;
}

/* Returns when the next one is due, or `deadline_ns`, whichever is first. */
static int64_t write_due(struct watch *w, int64_t deadline_ns)
{
    for (size_t i = 0; i < w->nwrites;) {
        if (w->writes[i].at_ns > clock_now_ns()) {
            deadline_ns = w->writes[i].at_ns < deadline_ns ? w->writes[i].at_ns : deadline_ns;
            i++;
            continue;
        }
        raise_word(w->writes[i].word, w->writes[i].value);
        w->writes[i] = w->writes[--w->nwrites];
    }
    return deadline_ns;
}

void watch_mark_ready(struct group *g)
{
    region_word_set(&slot_of(g)->ready, g->generation);
}

/* Opens the gate; the next group of the stream can arrive now. */
static void open_gate(struct watch *w, struct group *g)
{
    struct rank *r = g->rank;
    g->opened = true;
    w->daemon->moves++;
    g->open_at_ns = clock_now_ns();
    region_word_set(&slot_of(g)->go, g->generation);
    r->streams[g->stream] = g->next_on_stream;
    if (g->next_on_stream && !g->next_on_stream->early)
        add_head(w, g->next_on_stream);
    unlink_from_rank(g);
    if (w->daemon->ops && w->daemon->ops->opened)
        w->daemon->ops->opened(w->daemon, g);
    group_free(g);
}

void watch_open_due(struct watch *w)
{
    while (w->ndue && w->due[0]->open_at_ns <= clock_now_ns())
        open_gate(w, heap_pop(w));
}

static void arrived(struct watch *w, struct group *g)
{
    drop_head(w, g);
    g->arrived = true;
    g->arrived_ns = clock_now_ns();
    w->daemon->moves++;
    w->daemon->ops->arrived(w->daemon, g);
}

/* Returns how many had arrived of which the board (if there is one) says nothing. */
static size_t look_at_heads(struct watch *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->nheads;) {
        if (!has_arrived(w->heads[i])) {
            i++;
            continue;
        }
        w->silent = w->slept == WOKEN ? 0 : w->silent + !w->writers_wake; /* perhaps while it did not sleep, or the doorbell woke it */
        n += !board_is_marked(w->daemon, w->heads[i]->rank);
        arrived(w, w->heads[i]);
    }
    return n;
}

static void look_at_rank(void *arg, struct rank *r)
{
    struct watch *w = arg;
    for (uint32_t s = 0; s < r->nstreams; s++) {
        struct group *g = r->streams[s];
        if (g && g->head != SIZE_MAX && has_arrived(g))
            arrived(w, g);
    }
}

/* With a board the heads are looked at only now and then: a writer that rings no bell would be found so, and then more often. So
 * would GPUs, which ring it and wake nobody: a sleep's time-out finds the bell rung. */
static void look_for_arrivals(struct watch *w)
{
    if (!w->daemon->board) {
        look_at_heads(w);
        return;
    }
    bool silent = board_take(w->daemon, look_at_rank, w) && w->slept == TIMED_OUT;
    int64_t now = clock_now_ns();
    if (now < w->look_at_all_ns)
        return;
    w->all_poll_ns = look_at_heads(w) || silent ? w->poll_ns : w->all_poll_ns * 2;
    if (w->all_poll_ns > BOARD_POLL_NS)
        w->all_poll_ns = BOARD_POLL_NS;
    w->look_at_all_ns = now + (is_woken(w) ? WOKEN_POLL_NS : w->all_poll_ns);
}

static void sleep_on(struct watch *w, struct futex_waitv *waiters, unsigned n, int64_t deadline_ns)
{
    struct timespec ts = {deadline_ns / NSEC_PER_SEC, deadline_ns % NSEC_PER_SEC};
    w->sleeping = true;
    pthread_mutex_unlock(&w->daemon->lock);
    long rc = syscall(SYS_futex_waitv, waiters, n, 0, &ts, CLOCK_MONOTONIC);
    bool cannot = rc < 0 && errno == ENOSYS, timed_out = rc < 0 && errno == ETIMEDOUT;
    if (cannot)
        clock_sleep_until_ns(deadline_ns);
    pthread_mutex_lock(&w->daemon->lock);
    w->sleeping = false;
    w->cannot_wait |= cannot;
    w->slept = rc > 0 ? WOKEN : timed_out ? TIMED_OUT : NOT_SLEPT; /* rc: which of the words */
}

/* A GPU's write wakes nobody. The words stay mapped while `spinning` is set: watch_drop_rank waits for that. */
static void spin_on(struct watch *w, const struct futex_waitv *waiters, unsigned n, int64_t deadline_ns)
{
    bool changed = false;
    __atomic_store_n(&w->spinning, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&w->daemon->lock);
    while (!changed && clock_now_ns() < deadline_ns)
        for (unsigned i = 0; i < n && !changed; i++)
            changed = __atomic_load_n((const uint32_t *)(uintptr_t)waiters[i].uaddr, __ATOMIC_ACQUIRE) !=
                      (uint32_t)waiters[i].val;
    __atomic_store_n(&w->spinning, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&w->daemon->lock);
}

static void wait_for_change(struct watch *w, uint32_t bell, int64_t deadline_ns)
{
    struct futex_waitv waiters[WAITV_MAX];
    unsigned n = 0;
    waiters[n++] = (struct futex_waitv){.val = bell, .uaddr = (uintptr_t)&w->doorbell, .flags = FUTEX_32};
    if (w->daemon->board)
        waiters[n++] = (struct futex_waitv){.val = 0, .uaddr = (uintptr_t)board_bell(w->daemon), .flags = FUTEX_32};
    else if (w->nheads < WAITV_MAX)
        for (size_t i = 0; i < w->nheads; i++) {
            uint32_t *word = &slot_of(w->heads[i])->arrive;
            uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
            if ((int32_t)(seen - w->heads[i]->generation) >= 0)
                return;
            waiters[n++] = (struct futex_waitv){.val = seen, .uaddr = (uintptr_t)word, .flags = FUTEX_32};
        }
    bool silent = w->spin && !is_woken(w) && w->silent >= SILENT_ARRIVALS;
    bool always = silent && w->spin == WATCH_SPINS && (w->nheads || w->ndue || w->daemon->live);
    __atomic_store_n(&w->spins, always, __ATOMIC_RELAXED);
    if (always || (silent && w->nheads))
        spin_on(w, waiters, n, deadline_ns);
    else
        sleep_on(w, waiters, n, deadline_ns);
}

static void *watch_main(void *arg)
{
    struct watch *w = arg;
    clock_set_precise();
    pthread_mutex_lock(&w->daemon->lock);
    while (!w->stop) {
        uint32_t bell = __atomic_load_n(&w->doorbell, __ATOMIC_ACQUIRE);
        watch_open_due(w);
        if (w->daemon->ops && w->daemon->ops->look)
            w->daemon->ops->look(w->daemon);
        look_for_arrivals(w);
        watch_open_due(w);
        w->slept = NOT_SLEPT;
        int64_t now = clock_now_ns();
        int64_t deadline = now + (!w->nheads ? NSEC_PER_SEC : is_woken(w) ? WOKEN_POLL_NS : w->poll_ns);
        if (w->nheads && w->daemon->board)
            deadline = w->look_at_all_ns;
        if (w->ndue && w->due[0]->open_at_ns < deadline)
            deadline = w->due[0]->open_at_ns;
        deadline = write_due(w, deadline);
        if (deadline > now)
            wait_for_change(w, bell, deadline);
    }
    pthread_mutex_unlock(&w->daemon->lock);
    return NULL;
}

void watch_drop_rank(struct watch *w, struct rank *r)
{
    size_t kept = 0;
    ring(w);
    while (__atomic_load_n(&w->spinning, __ATOMIC_SEQ_CST))
        sched_yield();
    for (size_t i = 0; i < w->nheads; i++)
        if (w->heads[i]->rank != r) {
            w->heads[i]->head = kept;
            w->heads[kept++] = w->heads[i];
        }
    w->nheads = kept;
    kept = 0;
    for (size_t i = 0; i < w->ndue; i++)
        if (w->due[i]->rank != r)
            w->due[kept++] = w->due[i];
    w->ndue = kept;
    heap_order(w);
    while (r->groups) {
        struct group *g = r->groups;
        r->groups = g->next_of_rank;
        group_free(g);
    }
    for (uint32_t s = 0; s < r->nstreams; s++)
        r->streams[s] = r->stream_tails[s] = NULL;
}

struct watch *watch_create(struct daemon *d)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->daemon = d;
    w->poll_ns = 500000;
    if (pthread_create(&w->thread, NULL, watch_main, w)) {
        free(w);
        return NULL;
    }
    return w;
}

void watch_set_poll(struct watch *w, int64_t poll_ns, enum watch_spin spin)
{
    w->poll_ns = w->all_poll_ns = poll_ns;
    w->look_at_all_ns = 0;
    w->spin = spin;
    w->writers_wake = false;
    w->silent = 0;
    __atomic_store_n(&w->spins, false, __ATOMIC_RELAXED);
    ring(w);
}

bool watch_spins(const struct watch *w)
{
    return __atomic_load_n(&w->spins, __ATOMIC_RELAXED);
}

void watch_writers_wake(struct watch *w)
{
    w->writers_wake = true;
}

void watch_destroy(struct watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->daemon->lock);
    w->stop = true;
    ring(w);
    pthread_mutex_unlock(&w->daemon->lock);
    pthread_join(w->thread, NULL);
    free(w->heads);
    free(w->due);
    free(w->writes);
    free(w);
}
