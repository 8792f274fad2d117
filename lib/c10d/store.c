#include "c10d/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

struct item {
    struct item *prev, *next;
    size_t len;
    uint8_t data[];
};

struct entry;

/* On two lists: the entry's (who waits here) and the waiter's (where do I wait), so that both leave in O(1) each. */
struct c10d_hold {
    struct c10d_hold *entry_prev, *entry_next;
    struct c10d_hold *own_prev, *own_next;
    struct entry *entry;
    struct c10d_waiter *waiter;
};

struct entry {
    UT_hash_handle hh;
    bool present; /* has a value; entries without one only carry waiters, watchers or a queue */
    struct bytes value;
    struct c10d_hold *waits, *watches;
    struct item *queue;
    size_t queue_len;
    size_t key_len;
    uint8_t key[];
};

struct c10d_store {
    struct c10d_store_events events;
    struct entry *entries;
    size_t present;
};

static void *allocate(size_t n)
{
    void *p = calloc(1, n);
    if (!p)
        abort();
    return p;
}

static struct c10d_slice slice_of(const struct bytes *b)
{
    return (struct c10d_slice){b->data, b->len};
}

static struct c10d_slice key_of(const struct entry *e)
{
    return (struct c10d_slice){e->key, e->key_len};
}

static struct entry *entry_find(const struct c10d_store *store, struct c10d_slice key)
{
    struct entry *e = NULL;
    HASH_FIND(hh, store->entries, key.data, key.len, e);
    return e;
}

static struct entry *entry_get(struct c10d_store *store, struct c10d_slice key)
{
    struct entry *e = entry_find(store, key);
    if (e)
        return e;
    e = allocate(sizeof *e + key.len);
    e->key_len = key.len;
    if (key.len)
        memcpy(e->key, key.data, key.len);
    HASH_ADD_KEYPTR(hh, store->entries, e->key, e->key_len, e);
    return e;
}

static void entry_release(struct c10d_store *store, struct entry *e)
{
    if (e->present || e->waits || e->watches || e->queue)
        return;
    HASH_DEL(store->entries, e);
    bytes_free(&e->value);
    free(e);
}

struct c10d_store *c10d_store_create(struct c10d_store_events events)
{
    struct c10d_store *store = allocate(sizeof *store);
    store->events = events;
    return store;
}

void c10d_store_destroy(struct c10d_store *store)
{
    if (!store)
        return;
    struct entry *e, *next;
    HASH_ITER(hh, store->entries, e, next)
    {
        struct item *item, *after;
        DL_FOREACH_SAFE(e->queue, item, after)
        {
            free(item);
        }
        HASH_DEL(store->entries, e);
        bytes_free(&e->value);
        free(e);
    }
    free(store);
}

bool c10d_store_get(const struct c10d_store *store, struct c10d_slice key, struct c10d_slice *value)
{
    const struct entry *e = entry_find(store, key);
    if (!e || !e->present)
        return false;
    *value = slice_of(&e->value);
    return true;
}

bool c10d_store_ready(const struct c10d_store *store, struct c10d_slice key)
{
    const struct entry *e = entry_find(store, key);
    return e && (e->present || e->queue);
}

size_t c10d_store_num_keys(const struct c10d_store *store)
{
    return store->present;
}

size_t c10d_store_queue_len(const struct c10d_store *store, struct c10d_slice key)
{
    const struct entry *e = entry_find(store, key);
    return e ? e->queue_len : 0;
}

void c10d_store_each(const struct c10d_store *store, void (*visit)(void *ctx, struct c10d_slice key),
                     void *ctx)
{
    for (const struct entry *e = store->entries; e; e = e->hh.next)
        if (e->present)
            visit(ctx, key_of(e));
}

/* --- waiting and watching --- */

static void hold_free(struct c10d_hold *hold, struct c10d_hold **at_entry, struct c10d_hold **own)
{
    DL_DELETE2(*at_entry, hold, entry_prev, entry_next);
    DL_DELETE2(*own, hold, own_prev, own_next);
    free(hold);
}

static struct c10d_hold *hold_new(struct c10d_store *store, struct c10d_waiter *waiter, struct c10d_slice key)
{
    struct c10d_hold *hold = allocate(sizeof *hold);
    hold->entry = entry_get(store, key);
    hold->waiter = waiter;
    return hold;
}

void c10d_store_wait(struct c10d_store *store, struct c10d_waiter *waiter, struct c10d_slice key)
{
    struct c10d_hold *hold = hold_new(store, waiter, key);
    DL_APPEND2(hold->entry->waits, hold, entry_prev, entry_next);
    DL_APPEND2(waiter->waits, hold, own_prev, own_next);
    waiter->awaited++;
}

void c10d_store_watch(struct c10d_store *store, struct c10d_waiter *watcher, struct c10d_slice key)
{
    struct c10d_hold *hold = hold_new(store, watcher, key);
    DL_APPEND2(hold->entry->watches, hold, entry_prev, entry_next);
    DL_APPEND2(watcher->watches, hold, own_prev, own_next);
}

void c10d_store_cancel(struct c10d_store *store, struct c10d_waiter *waiter)
{
    while (waiter->waits) {
        struct entry *e = waiter->waits->entry;
        hold_free(waiter->waits, &e->waits, &waiter->waits);
        entry_release(store, e);
    }
    waiter->awaited = 0;
}

const struct c10d_hold *c10d_store_awaited(const struct c10d_waiter *waiter, const struct c10d_hold *at, struct c10d_slice *key)
{
    const struct c10d_hold *next = at ? at->own_next : waiter->waits;
    if (next)
        *key = key_of(next->entry);
    return next;
}

void c10d_store_leave(struct c10d_store *store, struct c10d_waiter *waiter)
{
    c10d_store_cancel(store, waiter);
    while (waiter->watches) {
        struct entry *e = waiter->watches->entry;
        hold_free(waiter->watches, &e->watches, &waiter->watches);
        entry_release(store, e);
    }
}

/* True when this was the last key the waiter missed. */
static bool wake_first(struct c10d_store *store, struct entry *e)
{
    struct c10d_waiter *waiter = e->waits->waiter;
    hold_free(e->waits, &e->waits, &waiter->waits);
    if (--waiter->awaited > 0)
        return false;
    store->events.wake(waiter);
    return true;
}

static void wake_all(struct c10d_store *store, struct entry *e)
{
    while (e->waits)
        wake_first(store, e);
}

static void tell_watchers(struct c10d_store *store, struct entry *e, enum c10d_change change,
                          struct c10d_slice old_value, struct c10d_slice new_value)
{
    struct c10d_hold *hold, *next;
    DL_FOREACH_SAFE2(e->watches, hold, next, entry_next)
    {
        store->events.changed(hold->waiter, change, key_of(e), old_value, new_value);
    }
}

/* --- mutations --- */

/* Give the entry a value without waking anyone; the watchers hear of it. */
static void assign(struct c10d_store *store, struct entry *e, const void *data, size_t len)
{
    struct bytes old = e->value;
    enum c10d_change change = e->present ? C10D_UPDATED : C10D_CREATED;
    e->value = (struct bytes){0};
    bytes_put(&e->value, data, len);
    store->present += !e->present;
    e->present = true;
    if (e->watches)
        tell_watchers(store, e, change, slice_of(&old), slice_of(&e->value));
    bytes_free(&old);
}

static int apply_set(struct c10d_store *store, const struct c10d_mutation *m)
{
    struct entry *e = entry_get(store, (struct c10d_slice){m->key, m->key_len});
    assign(store, e, m->value, m->value_len);
    wake_all(store, e);
    return 1;
}

/* The number in front of a value, read as C++'s stoll reads it; a missing key counts as 0. */
static int number_of(const struct entry *e, int64_t *number)
{
    char text[64], *end;
    *number = 0;
    if (!e || !e->present)
        return 0;
    size_t n = e->value.len < sizeof text - 1 ? e->value.len : sizeof text - 1;
    if (n)
        memcpy(text, e->value.data, n);
    text[n] = 0;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return end == text || errno == ERANGE ? -1 : 0;
}

static int apply_add(struct c10d_store *store, const struct c10d_mutation *m, int64_t *sum,
                     struct prism_error *err)
{
    struct c10d_slice key = {m->key, m->key_len};
    bool barrier = m->kind == C10D_BARRIER;
    int64_t now;
    if (number_of(entry_find(store, key), &now))
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "store: add to key '%.*s' whose value is not a number",
                               m->key_len > 80 ? 80 : (int)m->key_len, (const char *)m->key);
    now = (int64_t)((uint64_t)now + (uint64_t)(barrier ? 1 : m->delta));
    char text[32];
    int len = snprintf(text, sizeof text, "%lld", (long long)now);
    struct entry *e = entry_get(store, key);
    assign(store, e, text, (size_t)len);
    if (!barrier || now >= m->delta)
        wake_all(store, e);
    *sum = now;
    return 1;
}

static int apply_delete(struct c10d_store *store, const struct c10d_mutation *m)
{
    struct entry *e = entry_find(store, (struct c10d_slice){m->key, m->key_len});
    if (!e || !e->present)
        return 0;
    struct bytes old = e->value;
    e->value = (struct bytes){0};
    e->present = false;
    store->present--;
    tell_watchers(store, e, C10D_DELETED, slice_of(&old), (struct c10d_slice){NULL, 0});
    bytes_free(&old);
    entry_release(store, e);
    return 1;
}

static int apply_append(struct c10d_store *store, const struct c10d_mutation *m, struct prism_error *err)
{
    struct entry *e = entry_get(store, (struct c10d_slice){m->key, m->key_len});
    if (e->value.len + m->value_len > C10D_VALUE_MAX)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "store: append makes key '%.*s' longer than %u bytes",
                               m->key_len > 80 ? 80 : (int)m->key_len, (const char *)m->key, C10D_VALUE_MAX);
    enum c10d_change change = e->present ? C10D_APPENDED : C10D_CREATED;
    store->present += !e->present;
    e->present = true;
    bytes_put(&e->value, m->value, m->value_len);
    tell_watchers(store, e, change, (struct c10d_slice){NULL, 0},
                  (struct c10d_slice){m->value, m->value_len});
    wake_all(store, e);
    return 1;
}

static int apply_push(struct c10d_store *store, const struct c10d_mutation *m)
{
    struct entry *e = entry_get(store, (struct c10d_slice){m->key, m->key_len});
    struct item *item = allocate(sizeof *item + m->value_len);
    item->len = m->value_len;
    if (m->value_len)
        memcpy(item->data, m->value, m->value_len);
    DL_APPEND(e->queue, item);
    e->queue_len++;
    while (e->waits) /* one item serves one waiter */
        if (wake_first(store, e))
            break;
    return 1;
}

int c10d_store_queue_pop(struct c10d_store *store, struct c10d_slice key, struct bytes *out)
{
    struct entry *e = entry_find(store, key);
    bytes_clear(out);
    if (!e || !e->queue)
        return 0;
    struct item *item = e->queue;
    DL_DELETE(e->queue, item);
    e->queue_len--;
    bytes_put(out, item->data, item->len);
    free(item);
    entry_release(store, e);
    return 1;
}

static int apply_pop(struct c10d_store *store, const struct c10d_mutation *m)
{
    struct bytes taken = {0};
    int done = c10d_store_queue_pop(store, (struct c10d_slice){m->key, m->key_len}, &taken);
    bytes_free(&taken);
    return done;
}

int c10d_store_apply(struct c10d_store *store, const struct c10d_mutation *m, int64_t *sum,
                     struct prism_error *err)
{
    int64_t ignored;
    if (m->key_len > C10D_KEY_MAX || m->value_len > C10D_VALUE_MAX)
        return prism_error_set(err, PRISM_EXIT_SYSTEM,
                               "store: key of %zu or value of %zu bytes is over the bounds", m->key_len,
                               m->value_len);
    switch (m->kind) {
    case C10D_SET:
    case C10D_COMPARE_SET:
        return apply_set(store, m);
    case C10D_ADD:
    case C10D_BARRIER:
        return apply_add(store, m, sum ? sum : &ignored, err);
    case C10D_DELETE:
        return apply_delete(store, m);
    case C10D_APPEND:
        return apply_append(store, m, err);
    case C10D_QUEUE_PUSH:
        return apply_push(store, m);
    case C10D_QUEUE_POP:
        return apply_pop(store, m);
    }
    return prism_error_set(err, PRISM_EXIT_SYSTEM, "store: unknown kind of mutation %d", (int)m->kind);
}

int c10d_store_compare_set(struct c10d_store *store, struct c10d_slice key, struct c10d_slice expected,
                           struct c10d_slice desired, struct c10d_slice *now)
{
    struct entry *e = entry_find(store, key);
    bool there = e && e->present;
    *now = there ? slice_of(&e->value) : expected;
    if (there ? now->len != expected.len || (expected.len && memcmp(now->data, expected.data, expected.len))
              : expected.len > 0)
        return 0;
    e = entry_get(store, key);
    assign(store, e, desired.data, desired.len);
    wake_all(store, e);
    *now = slice_of(&e->value);
    return 1;
}
