#include "prismd/replay/prefetch.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define AHEAD   1024u /* payloads of a rank in memory at most */
#define BEHIND  64u   /* after so many that stood behind it, one that was not asked for is given up */
#define NEAR    64u   /* numbers between what is read next and what is asked for, if streams have overtaken each other */
#define MISSES  8u    /* in a row, and it is something else */
#define IDLE    8u    /* buffers kept for what is read next: new pages for tens of megabytes take longer than the reading */
#define LARGE   ((size_t)256 << 10) /* of such a buffer */
#define NOWHERE UINT32_MAX

struct item {
    uint32_t node;
    uint32_t passed; /* taken from behind it */
    void *data;      /* owned */
    size_t len;
};

/* One rank's groups in the order of issue. */
struct line {
    uint32_t rank;
    struct payload_key *keys; /* owned */
    uint32_t *nodes;          /* owned; the node of each */
    uint32_t n, loop;         /* behind the last comes number `loop` */
    uint32_t *place;          /* owned; by node: its number, NOWHERE = no group, or none that is wanted */
    uint32_t nnodes;
    uint8_t *served; /* owned; by number: the caller has read it himself, so it is passed by once */
    uint32_t next;    /* number to be read */
    uint32_t reading; /* number that is being read, NOWHERE = none */
    uint32_t jumps;   /* what was being read when one came is not wanted any more */
    uint32_t dry;     /* numbers in a row that had nothing to read */
    uint32_t misses;  /* in a row */
    struct item *items; /* owned; AHEAD of them, oldest first */
    uint32_t nitems;
};

struct prefetch {
    struct payload_reader *payloads;
    struct line *lines; /* owned */
    uint32_t nlines;
    size_t budget;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below and the lines' last eight */
    pthread_cond_t room;  /* for the thread: something was taken */
    pthread_cond_t read;  /* for callers: something was read */
    bool stop;
    size_t bytes;     /* in items */
    void *idle[IDLE]; /* owned; NULL = none */
    struct prefetch_counts counts;
};

/* --- lines --- */

static void line_init(struct line *l, const struct graph_rank *r, uint32_t rank, prefetch_wants wants, void *ctx)
{
    uint32_t loop_node = r->niterations ? r->iterations[r->niterations - 1] : 0;
    l->rank = rank;
    l->nnodes = r->nnodes;
    l->keys = array_zeros(r->nnodes, sizeof *l->keys);
    l->nodes = array_zeros(r->nnodes, sizeof *l->nodes);
    l->place = array_zeros(r->nnodes, sizeof *l->place);
    l->items = array_zeros(AHEAD, sizeof *l->items);
    l->served = array_zeros(r->nnodes, sizeof *l->served);
    l->reading = NOWHERE;
    for (uint32_t i = 0; i < r->nnodes; i++) {
        const struct graph_node *node = &r->nodes[i];
        l->place[i] = NOWHERE;
        if (node->kind != GRAPH_COMM || !wants(ctx, rank, node))
            continue;
        if (i < loop_node)
            l->loop = l->n + 1;
        l->keys[l->n] = (struct payload_key){rank, node->comm, node->ordinal, PAYLOAD_OUTPUT};
        l->nodes[l->n] = i;
        l->place[i] = l->n++;
    }
    if (l->loop >= l->n)
        l->loop = 0;
}

static void line_clear(struct line *l)
{
    for (uint32_t i = 0; i < l->nitems; i++)
        free(l->items[i].data);
    free(l->items);
    free(l->keys);
    free(l->nodes);
    free(l->place);
    free(l->served);
}

static uint32_t after(const struct line *l, uint32_t number)
{
    return number + 1 < l->n ? number + 1 : l->loop;
}

/* --- buffers --- */

static void *buffer_of(struct prefetch *p, size_t size)
{
    for (uint32_t i = 0; i < IDLE; i++) {
        size_t room = p->idle[i] ? malloc_usable_size(p->idle[i]) : 0;
        if (room < size || room / 2 > size)
            continue;
        void *data = p->idle[i];
        p->idle[i] = NULL;
        return data;
    }
    return malloc(size);
}

static void keep_buffer(struct prefetch *p, void *data)
{
    void **place = &p->idle[0];
    for (uint32_t i = 1; i < IDLE && *place; i++)
        if (!p->idle[i])
            place = &p->idle[i];
    if (*place || malloc_usable_size(data) < LARGE)
        free(data);
    else
        *place = data;
}

static void drop_item(struct prefetch *p, struct line *l, uint32_t i)
{
    p->bytes -= l->items[i].len;
    l->nitems--;
    memmove(&l->items[i], &l->items[i + 1], (l->nitems - i) * sizeof *l->items);
}

static struct line *line_of(const struct prefetch *p, uint32_t rank)
{
    for (uint32_t i = 0; i < p->nlines; i++)
        if (p->lines[i].rank == rank)
            return &p->lines[i];
    return NULL;
}

/* --- the thread --- */

/* The line with the fewest items that has something to read; NULL = none. */
static struct line *neediest(const struct prefetch *p)
{
    struct line *best = NULL;
    for (uint32_t i = 0; i < p->nlines; i++) {
        struct line *l = &p->lines[i];
        if (l->nitems < AHEAD && l->dry < l->n && (!best || l->nitems < best->nitems))
            best = l;
    }
    return best;
}

/* The next payload of the line that fits into the budget at all; 0 = there is none. */
static size_t find_next(const struct prefetch *p, struct line *l)
{
    while (l->dry < l->n) {
        int64_t size = payload_reader_size(p->payloads, l->keys[l->next]);
        bool served = l->served[l->next];
        if (size > 0 && (uint64_t)size <= p->budget && !served)
            return (size_t)size;
        l->dry += !served; /* of that the line has something the next time */
        l->served[l->next] = 0;
        l->next = after(l, l->next);
    }
    return 0;
}

/* With the lock held, given up while it reads. */
static void read_next(struct prefetch *p, struct line *l, size_t size)
{
    uint32_t number = l->next, jumps = l->jumps;
    void *data = buffer_of(p, size);
    l->reading = number;
    l->next = after(l, number);
    pthread_mutex_unlock(&p->lock);
    bool good = data && payload_reader_get(p->payloads, l->keys[number], data, size, NULL) == (int64_t)size;
    pthread_mutex_lock(&p->lock);
    l->reading = NOWHERE;
    pthread_cond_broadcast(&p->read);
    if (!good || l->jumps != jumps) { /* the caller will find out what is wrong */
        l->dry += !good;
        free(data);
        return;
    }
    l->dry = 0;
    l->items[l->nitems++] = (struct item){l->nodes[number], 0, data, size};
    p->bytes += size;
}

static void *prefetch_main(void *arg)
{
    struct prefetch *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct line *l = neediest(p);
        size_t size = l ? find_next(p, l) : 0;
        if (l && !size)
            continue; /* it is dry now */
        if (size && p->bytes + size <= p->budget)
            read_next(p, l, size);
        else
            pthread_cond_wait(&p->room, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- the caller --- */

static void give_up_passed(struct prefetch *p, struct line *l, uint32_t before)
{
    for (uint32_t i = before; i-- > 0;)
        if (++l->items[i].passed > BEHIND) {
            keep_buffer(p, l->items[i].data);
            drop_item(p, l, i);
        }
}

/* The rank is elsewhere than was thought: begin anew behind what it asks for. */
static void jump(struct prefetch *p, struct line *l, uint32_t number)
{
    while (l->nitems) {
        free(l->items[l->nitems - 1].data);
        drop_item(p, l, l->nitems - 1);
    }
    memset(l->served, 0, l->nnodes);
    l->next = after(l, number);
    l->jumps++;
    l->dry = l->misses = 0;
}

/* How far `to` lies behind `from` in the order of reading, which goes round behind the last. */
static uint32_t distance(const struct line *l, uint32_t from, uint32_t to)
{
    if (to >= from)
        return to - from;
    return to >= l->loop ? l->n - from + (to - l->loop) : NOWHERE;
}

/* The caller reads it himself. Nearby, the thread goes on where it is: what it has read is still wanted. */
static void miss(struct prefetch *p, struct line *l, uint32_t number)
{
    bool ahead = distance(l, l->next, number) < NEAR, behind = distance(l, number, l->next) < NEAR;
    if (++l->misses > MISSES || (!ahead && !behind))
        jump(p, l, number);
    else if (ahead)
        l->served[number] = 1;
}

static uint32_t find_item(const struct line *l, uint32_t number)
{
    uint32_t i = 0;
    while (i < l->nitems && l->items[i].node != l->nodes[number])
        i++;
    return i;
}

/* The thread may be at that number again already. */
static void *take(struct prefetch *p, struct line *l, uint32_t number, size_t *len)
{
    uint32_t i;
    while ((i = find_item(l, number)) == l->nitems && l->reading == number)
        pthread_cond_wait(&p->read, &p->lock);
    if (i == l->nitems)
        return NULL;
    void *data = l->items[i].data;
    *len = l->items[i].len;
    l->misses = 0;
    drop_item(p, l, i);
    give_up_passed(p, l, i);
    return data;
}

void *prefetch_take(struct prefetch *p, uint32_t rank, uint32_t node, size_t *len)
{
    struct line *l = p ? line_of(p, rank) : NULL;
    uint32_t number = l && node < l->nnodes ? l->place[node] : NOWHERE;
    if (number == NOWHERE || payload_reader_size(p->payloads, l->keys[number]) <= 0)
        return NULL;
    pthread_mutex_lock(&p->lock);
    void *data = take(p, l, number, len);
    if (data) {
        p->counts.hits++;
    } else {
        p->counts.misses++;
        miss(p, l, number);
    }
    pthread_cond_signal(&p->room);
    pthread_mutex_unlock(&p->lock);
    return data;
}

void prefetch_give(struct prefetch *p, void *data)
{
    if (!p || !data) {
        free(data);
        return;
    }
    pthread_mutex_lock(&p->lock);
    keep_buffer(p, data);
    pthread_mutex_unlock(&p->lock);
}

struct prefetch_counts prefetch_counts(const struct prefetch *p)
{
    struct prefetch_counts counts = {0};
    if (p) {
        pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&p->lock;
        pthread_mutex_lock(lock);
        counts = p->counts;
        pthread_mutex_unlock(lock);
    }
    return counts;
}

struct prefetch *prefetch_create(const struct graph *g, struct payload_reader *payloads, const uint32_t *ranks,
                                 uint32_t nranks, size_t budget, prefetch_wants wants, void *ctx)
{
    if (!budget || !nranks)
        return NULL;
    struct prefetch *p = array_zeros(1, sizeof *p);
    p->payloads = payloads;
    p->budget = budget;
    p->nlines = nranks;
    p->lines = array_zeros(nranks, sizeof *p->lines);
    for (uint32_t i = 0; i < nranks; i++)
        line_init(&p->lines[i], &g->ranks[ranks[i]], ranks[i], wants, ctx);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->read, NULL);
    if (!pthread_create(&p->thread, NULL, prefetch_main, p))
        return p;
    p->stop = true;
    prefetch_destroy(p);
    return NULL;
}

void prefetch_destroy(struct prefetch *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    bool joined = p->stop; /* there never was a thread */
    p->stop = true;
    pthread_cond_signal(&p->room);
    pthread_mutex_unlock(&p->lock);
    if (!joined)
        pthread_join(p->thread, NULL);
    for (uint32_t i = 0; i < p->nlines; i++)
        line_clear(&p->lines[i]);
    for (uint32_t i = 0; i < IDLE; i++)
        free(p->idle[i]);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->read);
    free(p->lines);
    free(p);
}
