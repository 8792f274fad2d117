/* replay.c - one queue of records a key; replay.h has the rule. */
#include "c10d/replay.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* How often a sandbox rank has changed a key beyond what the walk has used up. */
struct credit {
    uint32_t author;
    uint64_t count;
    UT_hash_handle hh;
};

struct key_queue {
    const void *key; /* of the log's first record of the key */
    size_t key_len;
    size_t *records; /* indices into the log */
    size_t count, cap, next;
    struct credit *credits;
    bool walking; /* an apply may lead back here through a hook */
    UT_hash_handle hh;
};

struct c10d_replay {
    const struct c10d_log *log;
    uint32_t *sandbox; /* sorted */
    size_t sandbox_count;
    c10d_apply apply;
    void *ctx;
    struct key_queue *queues;
    size_t pending;
};

static void *checked(void *p)
{
    if (!p)
        abort();
    return p;
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool is_sandbox(const struct c10d_replay *replay, uint32_t author)
{
    return replay->sandbox_count &&
           bsearch(&author, replay->sandbox, replay->sandbox_count, sizeof author, compare_ranks);
}

static struct key_queue *queue_find(const struct c10d_replay *replay, const void *key, size_t key_len)
{
    struct key_queue *q = NULL;
    HASH_FIND(hh, replay->queues, key, key_len, q);
    return q;
}

static void queue_record(struct c10d_replay *replay, size_t index)
{
    const struct c10d_mutation *m = &c10d_log_at(replay->log, index)->mutation;
    struct key_queue *q = queue_find(replay, m->key, m->key_len);
    if (!q) {
        q = checked(calloc(1, sizeof *q));
        q->key = m->key;
        q->key_len = m->key_len;
        HASH_ADD_KEYPTR(hh, replay->queues, q->key, q->key_len, q);
    }
    if (q->count == q->cap) {
        q->cap = q->cap ? q->cap * 2 : 4;
        q->records = checked(realloc(q->records, q->cap * sizeof *q->records));
    }
    q->records[q->count++] = index;
}

struct c10d_replay *c10d_replay_create(const struct c10d_log *log, const uint32_t *sandbox, size_t n,
                                       c10d_apply apply, void *ctx)
{
    struct c10d_replay *replay = checked(calloc(1, sizeof *replay));
    replay->log = log;
    replay->apply = apply;
    replay->ctx = ctx;
    replay->sandbox = checked(malloc((n + 1) * sizeof *sandbox));
    replay->sandbox_count = n;
    if (n) {
        memcpy(replay->sandbox, sandbox, n * sizeof *sandbox);
        qsort(replay->sandbox, n, sizeof *sandbox, compare_ranks);
    }
    for (size_t i = 0; i < c10d_log_count(log); i++) {
        queue_record(replay, i);
        replay->pending += !is_sandbox(replay, c10d_log_at(log, i)->author);
    }
    return replay;
}

void c10d_replay_destroy(struct c10d_replay *replay)
{
    if (!replay)
        return;
    struct key_queue *q, *next;
    HASH_ITER(hh, replay->queues, q, next)
    {
        struct credit *c, *after;
        HASH_ITER(hh, q->credits, c, after)
        {
            HASH_DEL(q->credits, c);
            free(c);
        }
        HASH_DEL(replay->queues, q);
        free(q->records);
        free(q);
    }
    free(replay->sandbox);
    free(replay);
}

static struct credit *credit_of(struct key_queue *q, uint32_t author)
{
    struct credit *c = NULL;
    HASH_FIND(hh, q->credits, &author, sizeof author, c);
    return c;
}

/* Has the sandbox mutation that this record stands for happened? Uses it up. */
static bool use_credit(struct key_queue *q, uint32_t author)
{
    struct credit *c = credit_of(q, author);
    if (!c || c->count == 0)
        return false;
    c->count--;
    return true;
}

static int walk(struct c10d_replay *replay, struct key_queue *q, struct prism_error *err)
{
    int rc = 0;
    if (q->walking)
        return 0; /* the walk under way goes on with the new credit */
    q->walking = true;
    while (q->next < q->count && rc == 0) {
        const struct c10d_record *r = c10d_log_at(replay->log, q->records[q->next]);
        bool sandbox = is_sandbox(replay, r->author);
        if (sandbox && !use_credit(q, r->author))
            break;
        q->next++;
        if (sandbox)
            continue;
        replay->pending--;
        rc = replay->apply(replay->ctx, &r->mutation, err) < 0 ? -1 : 0;
    }
    q->walking = false;
    return rc;
}

int c10d_replay_start(struct c10d_replay *replay, struct prism_error *err)
{
    for (struct key_queue *q = replay->queues; q; q = q->hh.next)
        if (walk(replay, q, err))
            return -1;
    return 0;
}

int c10d_replay_happened(struct c10d_replay *replay, uint32_t author, const void *key, size_t key_len,
                         struct prism_error *err)
{
    struct key_queue *q = queue_find(replay, key, key_len);
    if (!q || !is_sandbox(replay, author))
        return 0;
    struct credit *c = credit_of(q, author);
    if (!c) {
        c = checked(calloc(1, sizeof *c));
        c->author = author;
        HASH_ADD(hh, q->credits, author, sizeof c->author, c);
    }
    c->count++;
    return walk(replay, q, err);
}

size_t c10d_replay_pending(const struct c10d_replay *replay)
{
    return replay->pending;
}

int c10d_replay_apply_to_server(void *server, const struct c10d_mutation *m, struct prism_error *err)
{
    return c10d_server_apply(server, m, err);
}
