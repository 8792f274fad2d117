/* client.h - a blocking TCPStore client (the modern dialect of server.h), without libevent.
 *
 * Keys are strings of at most C10D_KEY_MAX bytes. Timeouts are milliseconds; negative waits for ever. Functions return
 * 0, or -1 with err filled; errno is then ETIMEDOUT exactly when time ran out (err says which key). After a time-out of
 * get or wait the client can be used on; after any other failure every call fails. Not for use by several threads at
 * once.
 */
#ifndef PRISM_C10D_CLIENT_H
#define PRISM_C10D_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct c10d_client;

/* Connect, retrying (the server may start later) with growing pauses until timeout_ms is over, then validate and ping. */
struct c10d_client *c10d_client_connect(const char *host, uint16_t port, int timeout_ms,
                                        struct prism_error *err);
void c10d_client_close(struct c10d_client *client); /* NULL is fine */

int c10d_client_set(struct c10d_client *client, const char *key, const void *value, size_t len,
                    struct prism_error *err);
/* Waits until the key is there. *value is malloc'ed (one byte more than len, a NUL, is readable). */
int c10d_client_get(struct c10d_client *client, const char *key, int timeout_ms, void **value, size_t *len,
                    struct prism_error *err);
/* *result (may be NULL) is the sum after adding. The key's value becomes its decimal text. */
int c10d_client_add(struct c10d_client *client, const char *key, int64_t delta, int64_t *result,
                    struct prism_error *err);
int c10d_client_append(struct c10d_client *client, const char *key, const void *value, size_t len,
                       struct prism_error *err);
/* *ready: are all n keys there? */
int c10d_client_check(struct c10d_client *client, const char *const *keys, size_t n, bool *ready,
                      struct prism_error *err);
int c10d_client_wait(struct c10d_client *client, const char *const *keys, size_t n, int timeout_ms,
                     struct prism_error *err);
/* *deleted (may be NULL): was it there? */
int c10d_client_delete(struct c10d_client *client, const char *key, bool *deleted, struct prism_error *err);
/* Set to desired if the value equals expected, or the key is missing and expected is empty. *value (malloc'ed as in
 * get) is the value afterwards; for a missing key that was expected otherwise the server returns expected itself. */
int c10d_client_compare_set(struct c10d_client *client, const char *key, const void *expected,
                            size_t expected_len, const void *desired, size_t desired_len, void **value,
                            size_t *len, struct prism_error *err);
int c10d_client_num_keys(struct c10d_client *client, int64_t *count, struct prism_error *err);

#endif
