/* c10d_wire.c - what a client sends the store: the stream of requests after its opening, and their effect on a store. */
#include <stdlib.h>

#include "c10d/store.h"
#include "c10d/wire.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 200000;

static void wake(struct c10d_waiter *waiter)
{
}

static void changed(struct c10d_waiter *watcher, enum c10d_change change, struct c10d_slice key, struct c10d_slice old_value,
                    struct c10d_slice new_value)
{
}

static void set(struct c10d_store *store, enum c10d_kind kind, struct c10d_slice key, struct c10d_slice value, int64_t delta)
{
    struct c10d_mutation m = {kind, key.data, key.len, value.data, value.len, delta};
    struct prism_error err = {0};
    int64_t sum;
    c10d_store_apply(store, &m, &sum, &err);
}

static void effect(struct c10d_store *store, struct c10d_waiter *waiter, const struct c10d_request *q)
{
    struct c10d_slice items = q->items, none = {0}, now;
    struct bytes popped = {0};
    switch (q->op) {
    case C10D_OP_SET: set(store, C10D_SET, q->key, q->value, 0); break;
    case C10D_OP_ADD: set(store, C10D_ADD, q->key, none, q->number); break;
    case C10D_OP_APPEND: set(store, C10D_APPEND, q->key, q->value, 0); break;
    case C10D_OP_DELETE_KEY: set(store, C10D_DELETE, q->key, none, 0); break;
    case C10D_OP_QUEUE_PUSH: set(store, C10D_QUEUE_PUSH, q->key, q->value, 0); break;
    case C10D_OP_BARRIER: set(store, C10D_BARRIER, q->key, none, q->number); break;
    case C10D_OP_QUEUE_POP: c10d_store_queue_pop(store, q->key, &popped); break;
    case C10D_OP_COMPARE_SET: c10d_store_compare_set(store, q->key, q->value, q->second, &now); break;
    case C10D_OP_WATCH_KEY: c10d_store_watch(store, waiter, q->key); break;
    case C10D_OP_CANCEL_WAIT: c10d_store_cancel(store, waiter); break;
    case C10D_OP_GET: c10d_store_get(store, q->key, &now); break;
    case C10D_OP_QUEUE_LEN: c10d_store_queue_len(store, q->key); break;
    case C10D_OP_WAIT:
        for (uint64_t i = 0; !waiter->awaited && i < q->count; i++)
            c10d_store_wait(store, waiter, c10d_wire_next(&items));
        break;
    case C10D_OP_MULTI_SET:
        for (uint64_t i = 0; i < q->count; i++) {
            struct c10d_slice key = c10d_wire_next(&items);
            set(store, C10D_SET, key, c10d_wire_next(&items), 0);
        }
        break;
    case C10D_OP_CHECK:
    case C10D_OP_MULTI_GET:
        for (uint64_t i = 0; i < q->count; i++)
            c10d_store_ready(store, c10d_wire_next(&items));
        break;
    default: break;
    }
    bytes_free(&popped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    enum c10d_dialect dialect = c10d_wire_detect(data, len);
    struct c10d_waiter waiter = {0};
    struct c10d_store *store = c10d_store_create((struct c10d_store_events){wake, changed});
    struct c10d_request q;
    size_t at = 0, need;
    const char *why;
    while (dialect != C10D_DIALECT_UNKNOWN && at < len) {
        int64_t n = c10d_wire_decode(dialect, data + at, len - at, &q, &need, &why);
        if (n > (int64_t)(len - at) || (!n && need <= len - at))
            abort();
        if (n <= 0)
            break;
        effect(store, &waiter, &q);
        at += (size_t)n;
    }
    c10d_store_leave(store, &waiter);
    c10d_store_destroy(store);
    return 0;
}
