/* dispatch.c - from a decoded request to the store, and the reply. */
#include <endian.h>
#include <event2/buffer.h>
#include <string.h>

#include "c10d/server_private.h"

#define READY               0
#define NOT_READY           1
#define STOP_WAITING        0
#define WAIT_CANCELED       1
#define CALLBACK_REGISTERED 3

static struct connection *owner(struct c10d_waiter *waiter)
{
    return (struct connection *)((char *)waiter - offsetof(struct connection, waiter));
}

static void reply(struct connection *c, const void *data, size_t len)
{
    if (len)
        evbuffer_add(bufferevent_get_output(c->stream), data, len);
}

static void reply_u8(struct connection *c, uint8_t v)
{
    reply(c, &v, 1);
}

static void reply_u64(struct connection *c, uint64_t v)
{
    v = htole64(v);
    reply(c, &v, sizeof v);
}

static void reply_bytes(struct connection *c, struct c10d_slice s)
{
    reply_u64(c, s.len);
    reply(c, s.data, s.len);
}

static void on_wake(struct c10d_waiter *waiter)
{
    reply_u8(owner(waiter), STOP_WAITING);
}

static void on_changed(struct c10d_waiter *watcher, enum c10d_change change, struct c10d_slice key,
                       struct c10d_slice old_value, struct c10d_slice new_value)
{
    struct connection *c = owner(watcher);
    reply_u8(c, (uint8_t)change);
    reply_bytes(c, key);
    reply_bytes(c, old_value);
    reply_bytes(c, new_value);
}

struct c10d_store_events c10d_dispatch_events(void)
{
    return (struct c10d_store_events){.wake = on_wake, .changed = on_changed};
}

static void mutated(struct connection *c, const struct c10d_mutation *m)
{
    const struct c10d_hooks *hooks = &c->server->hooks;
    if (hooks->on_mutation)
        hooks->on_mutation(hooks->ctx, &c->peer, m);
}

static struct c10d_mutation mutation(enum c10d_kind kind, struct c10d_slice key, struct c10d_slice value,
                                     int64_t delta)
{
    return (struct c10d_mutation){kind, key.data, key.len, value.len ? value.data : NULL, value.len, delta};
}

/* Mutations whose reply does not depend on the store. */
static int serve_plain(struct connection *c, enum c10d_kind kind, struct c10d_slice key,
                       struct c10d_slice value, const char **why)
{
    struct c10d_mutation m = mutation(kind, key, value, 0);
    int effect = c10d_store_apply(c->server->store, &m, NULL, NULL);
    if (effect < 0) {
        *why = "value grows too long";
        return -1;
    }
    if (kind == C10D_DELETE)
        reply_u64(c, (uint64_t)effect);
    if (effect)
        mutated(c, &m);
    return 0;
}

static int serve_compare_set(struct connection *c, const struct c10d_request *r)
{
    struct c10d_slice now;
    int swapped = c10d_store_compare_set(c->server->store, r->key, r->value, r->second, &now);
    reply_bytes(c, now);
    if (swapped) {
        struct c10d_mutation m = mutation(C10D_COMPARE_SET, r->key, r->second, 0);
        mutated(c, &m);
    }
    return 0;
}

static int serve_get(struct connection *c, struct c10d_slice key)
{
    struct c10d_slice value = {NULL, 0};
    c10d_store_get(c->server->store, key, &value);
    reply_bytes(c, value);
    return 0;
}

static int serve_add(struct connection *c, const struct c10d_request *r, const char **why)
{
    bool barrier = r->op == C10D_OP_BARRIER;
    struct c10d_mutation m =
        mutation(barrier ? C10D_BARRIER : C10D_ADD, r->key, (struct c10d_slice){NULL, 0}, r->number);
    const struct c10d_hooks *hooks = &c->server->hooks;
    int64_t sum;
    for (uint32_t others = hooks->on_add ? hooks->on_add(hooks->ctx, &c->peer, &m) : 0; others; others--)
        c10d_store_apply(c->server->store, &m, &sum, NULL);
    if (c10d_store_apply(c->server->store, &m, &sum, NULL) < 0) {
        *why = "add to a value that is not a number";
        return -1;
    }
    if (!barrier) {
        reply_u64(c, (uint64_t)sum);
    } else if (sum >= r->number) {
        reply_u8(c, STOP_WAITING);
    } else {
        c10d_store_cancel(c->server->store, &c->waiter);
        c10d_store_wait(c->server->store, &c->waiter, r->key);
    }
    mutated(c, &m);
    return 0;
}

static int serve_check(struct connection *c, const struct c10d_request *r)
{
    struct c10d_slice items = r->items;
    bool ready = true;
    for (uint64_t i = 0; i < r->count && ready; i++)
        ready = c10d_store_ready(c->server->store, c10d_wire_next(&items));
    reply_u8(c, ready ? READY : NOT_READY);
    return 0;
}

static int serve_wait(struct connection *c, const struct c10d_request *r)
{
    struct c10d_slice items = r->items;
    c10d_store_cancel(c->server->store, &c->waiter);
    for (uint64_t i = 0; i < r->count; i++) {
        struct c10d_slice key = c10d_wire_next(&items);
        if (!c10d_store_ready(c->server->store, key))
            c10d_store_wait(c->server->store, &c->waiter, key);
    }
    if (c->waiter.awaited == 0)
        reply_u8(c, STOP_WAITING);
    return 0;
}

static int serve_multi_get(struct connection *c, const struct c10d_request *r, const char **why)
{
    struct c10d_slice items = r->items;
    for (uint64_t i = 0; i < r->count; i++) {
        serve_get(c, c10d_wire_next(&items));
        if (evbuffer_get_length(bufferevent_get_output(c->stream)) > C10D_REQUEST_MAX) {
            *why = "values asked for at once are too long";
            return -1;
        }
    }
    return 0;
}

static int serve_multi_set(struct connection *c, const struct c10d_request *r, const char **why)
{
    struct c10d_slice items = r->items;
    for (uint64_t i = 0; i < r->count; i++) {
        struct c10d_slice key = c10d_wire_next(&items);
        if (serve_plain(c, C10D_SET, key, c10d_wire_next(&items), why))
            return -1;
    }
    return 0;
}

static int serve_pop(struct connection *c, struct c10d_slice key)
{
    struct c10d_server *server = c->server;
    struct bytes *out = &server->popped;
    reply_u64(c, c10d_store_queue_len(server->store, key));
    if (!c10d_store_queue_pop(server->store, key, out))
        return 0;
    struct c10d_slice value = {out->data, out->len};
    reply_bytes(c, value);
    struct c10d_mutation m = mutation(C10D_QUEUE_POP, key, value, 0);
    mutated(c, &m);
    return 0;
}

static void reply_key(void *ctx, struct c10d_slice key)
{
    reply_bytes(ctx, key);
}

static int serve_watch(struct connection *c, struct c10d_slice key)
{
    c10d_store_watch(c->server->store, &c->waiter, key);
    reply_u8(c, CALLBACK_REGISTERED);
    return 0;
}

static int serve_query(struct connection *c, const struct c10d_request *r)
{
    struct c10d_store *store = c->server->store;
    uint32_t nonce = htole32((uint32_t)r->number);
    switch (r->op) {
    case C10D_OP_PING:
        reply(c, &nonce, sizeof nonce);
        break;
    case C10D_OP_GETNUMKEYS:
        reply_u64(c, c10d_store_num_keys(store));
        break;
    case C10D_OP_QUEUE_LEN:
        reply_u64(c, c10d_store_queue_len(store, r->key));
        break;
    case C10D_OP_LIST_KEYS:
        reply_u64(c, c10d_store_num_keys(store));
        c10d_store_each(store, reply_key, c);
        break;
    case C10D_OP_CANCEL_WAIT:
        c10d_store_cancel(store, &c->waiter);
        reply_u8(c, WAIT_CANCELED);
        break;
    default: /* VALIDATE: its number was checked when it was decoded */
        break;
    }
    return 0;
}

int c10d_dispatch(struct connection *c, const struct c10d_request *r, const char **why)
{
    static const struct c10d_slice none = {NULL, 0};
    switch (r->op) {
    case C10D_OP_SET:
        return serve_plain(c, C10D_SET, r->key, r->value, why);
    case C10D_OP_APPEND:
        return serve_plain(c, C10D_APPEND, r->key, r->value, why);
    case C10D_OP_QUEUE_PUSH:
        return serve_plain(c, C10D_QUEUE_PUSH, r->key, r->value, why);
    case C10D_OP_DELETE_KEY:
        return serve_plain(c, C10D_DELETE, r->key, none, why);
    case C10D_OP_COMPARE_SET:
        return serve_compare_set(c, r);
    case C10D_OP_GET:
        return serve_get(c, r->key);
    case C10D_OP_ADD:
    case C10D_OP_BARRIER:
        return serve_add(c, r, why);
    case C10D_OP_CHECK:
        return serve_check(c, r);
    case C10D_OP_WAIT:
        return serve_wait(c, r);
    case C10D_OP_MULTI_GET:
        return serve_multi_get(c, r, why);
    case C10D_OP_MULTI_SET:
        return serve_multi_set(c, r, why);
    case C10D_OP_QUEUE_POP:
        return serve_pop(c, r->key);
    case C10D_OP_WATCH_KEY:
        return serve_watch(c, r->key);
    default:
        return serve_query(c, r);
    }
}
