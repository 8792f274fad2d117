/* inside.c - the store changed and read by the process that serves it. */
#include <string.h>

#include "c10d/server_private.h"

int c10d_server_apply(struct c10d_server *server, const struct c10d_mutation *m, struct prism_error *err)
{
    return c10d_store_apply(server->store, m, NULL, err);
}

static int apply(struct c10d_server *server, enum c10d_kind kind, const char *key, const void *value,
                 size_t len, int64_t delta, struct prism_error *err)
{
    struct c10d_mutation m = {kind, key, strlen(key), value, len, delta};
    return c10d_server_apply(server, &m, err);
}

int c10d_server_set(struct c10d_server *server, const char *key, const void *value, size_t len,
                    struct prism_error *err)
{
    return apply(server, C10D_SET, key, value, len, 0, err);
}

int c10d_server_add(struct c10d_server *server, const char *key, int64_t delta, struct prism_error *err)
{
    return apply(server, C10D_ADD, key, NULL, 0, delta, err);
}

int c10d_server_append(struct c10d_server *server, const char *key, const void *value, size_t len,
                       struct prism_error *err)
{
    return apply(server, C10D_APPEND, key, value, len, 0, err);
}

int c10d_server_delete(struct c10d_server *server, const char *key, struct prism_error *err)
{
    return apply(server, C10D_DELETE, key, NULL, 0, 0, err);
}

bool c10d_server_get(const struct c10d_server *server, const void *key, size_t key_len, const void **value,
                     size_t *len)
{
    struct c10d_slice found;
    if (!c10d_store_get(server->store, (struct c10d_slice){key, key_len}, &found))
        return false;
    *value = found.data;
    *len = found.len;
    return true;
}

void c10d_server_each_waiting(const struct c10d_server *server,
                              void (*visit)(void *ctx, const struct c10d_peer *peer, const void *key, size_t len), void *ctx)
{
    struct c10d_slice key;
    for (const struct connection *c = server->connections; c; c = c->next)
        for (const struct c10d_hold *at = NULL; (at = c10d_store_awaited(&c->waiter, at, &key));)
            visit(ctx, &c->peer, key.data, key.len);
}

size_t c10d_server_num_keys(const struct c10d_server *server)
{
    return c10d_store_num_keys(server->store);
}
