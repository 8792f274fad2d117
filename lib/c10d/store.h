/* store.h - the keys, values, queues, waiters and watchers of one store; no network (internal to lib/c10d). */
#ifndef PRISM_C10D_STORE_H
#define PRISM_C10D_STORE_H

#include <stdbool.h>

#include "c10d/mutation.h"
#include "c10d/wire.h"
#include "common/bytes.h"
#include "common/error.h"

struct c10d_store;
struct c10d_hold; /* one waiter's or watcher's place at one key */

/* Someone who waits for keys or watches them; embedded in its owner, zeroed at first. */
struct c10d_waiter {
    size_t awaited;          /* keys still missing; 0 = not waiting */
    struct c10d_hold *waits; /* one a missing key */
    struct c10d_hold *watches;
};

/* As the protocol numbers them (WatchResponseType). */
enum c10d_change { C10D_UPDATED = 0, C10D_CREATED = 1, C10D_DELETED = 2, C10D_APPENDED = 4 };

struct c10d_store_events {
    /* The last awaited key came. May not change the store. */
    void (*wake)(struct c10d_waiter *waiter);
    /* A watched key changed. May not change the store. */
    void (*changed)(struct c10d_waiter *watcher, enum c10d_change change, struct c10d_slice key,
                    struct c10d_slice old_value, struct c10d_slice new_value);
};

struct c10d_store *c10d_store_create(struct c10d_store_events events);
void c10d_store_destroy(struct c10d_store *store); /* every waiter must have left */

bool c10d_store_get(const struct c10d_store *store, struct c10d_slice key, struct c10d_slice *value);
bool c10d_store_ready(const struct c10d_store *store,
                      struct c10d_slice key); /* a value, or something in its queue */
size_t c10d_store_num_keys(const struct c10d_store *store);
size_t c10d_store_queue_len(const struct c10d_store *store, struct c10d_slice key);
void c10d_store_each(const struct c10d_store *store, void (*visit)(void *ctx, struct c10d_slice key),
                     void *ctx);

/* Apply. 1 with an effect, 0 without, -1 with err. *sum (may be NULL): ADD's and BARRIER's result. */
int c10d_store_apply(struct c10d_store *store, const struct c10d_mutation *m, int64_t *sum,
                     struct prism_error *err);
/* 1 swapped, 0 not; *now is the value to answer with, borrowed from the store or from expected. */
int c10d_store_compare_set(struct c10d_store *store, struct c10d_slice key, struct c10d_slice expected,
                           struct c10d_slice desired, struct c10d_slice *now);
/* Take the first of the key's queue into out (cleared first); 0 when empty. */
int c10d_store_queue_pop(struct c10d_store *store, struct c10d_slice key, struct bytes *out);

/* One more key to wait for, there or not. */
void c10d_store_wait(struct c10d_store *store, struct c10d_waiter *waiter, struct c10d_slice key);
void c10d_store_watch(struct c10d_store *store, struct c10d_waiter *watcher, struct c10d_slice key);
void c10d_store_cancel(struct c10d_store *store, struct c10d_waiter *waiter); /* its waits */
/* The keys a waiter misses, one after the other: at = NULL begins; NULL ends. */
const struct c10d_hold *c10d_store_awaited(const struct c10d_waiter *waiter, const struct c10d_hold *at, struct c10d_slice *key);
void c10d_store_leave(struct c10d_store *store, struct c10d_waiter *waiter);  /* its waits and watches */

#endif
