/* server.h - PyTorch's TCPStore, served on a libevent base.
 *
 * Dialects (told apart by a connection's first five bytes, wire.h):
 *   modern   recent PyTorch 2.x (tested: 2.15): opens with VALIDATE and the number 0x3C85F7CE
 *   legacy   older ones (tested: 1.13, Debian 12's): no opening, WATCH_KEY
 * Every operation costs time in its own size and in the number of clients it wakes, never in the number of clients or
 * keys, so thousands of clients work; the process needs as many file descriptors (a legacy client uses two).
 *
 * A malformed or oversized request closes that connection only. A reader that does not read its replies is no longer
 * read from once 64 MiB wait for it.
 *
 * Threads: a server belongs to the thread that runs its event_base; every function here is called from that thread,
 * except those of section 3.
 */
#ifndef PRISM_C10D_SERVER_H
#define PRISM_C10D_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "c10d/mutation.h"
#include "common/bytes.h"
#include "common/error.h"

struct event_base;
struct c10d_server;

/* --- 1. Server and hooks --- */

struct c10d_peer {
    char address[46]; /* numeric; an IPv4 client of a dual-stack socket is shown as plain IPv4 */
    uint16_t port;    /* the client's */
    uint64_t id;      /* counts connections of this server from 1 */
    void *user;       /* the hook owner's, e.g. the rank found in on_connect; NULL at first */
};

/* All optional. Hooks may call the functions of section 2, not c10d_server_destroy. */
struct c10d_hooks {
    void *ctx;
    void (*on_connect)(void *ctx, struct c10d_peer *peer);
    void (*on_disconnect)(void *ctx, struct c10d_peer *peer);
    /* After a client's mutation was applied, its reply queued and the waiters woken. m is valid during the call only.
     * Operations without effect (a delete of a missing key, a compare_set that did not match) are no mutations. */
    void (*on_mutation)(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m);
    /* A client's add or barrier is about to be applied: how often it is to be applied in front of that, as by others who do the
     * same (on_mutation does not hear of those). */
    uint32_t (*on_add)(void *ctx, struct c10d_peer *peer, const struct c10d_mutation *m);
    /* One line about a connection that was closed for what it sent, or a failed accept. */
    void (*on_warning)(void *ctx, const char *text);
};

/* Listen on address (a name or number; NULL: every address, IPv6 and IPv4) and port (0: any free one).
 * base must outlive the server. hooks is copied and may be NULL. NULL with err when it cannot listen. */
struct c10d_server *c10d_server_create(struct event_base *base, const char *address, uint16_t port,
                                       const struct c10d_hooks *hooks, struct prism_error *err);
/* Close everything; NULL is fine. on_disconnect is called for open connections. */
void c10d_server_destroy(struct c10d_server *server);
uint16_t c10d_server_port(const struct c10d_server *server);
size_t c10d_server_connections(const struct c10d_server *server);

/* --- 2. From inside: no hook is called, waiters and watchers are served as for a client's --- */

/* Apply one mutation. Returns 1 when it had an effect, 0 when not (delete of a missing key, pop of an empty queue),
 * -1 with err (over the bounds; add to a value that is not a number). */
int c10d_server_apply(struct c10d_server *server, const struct c10d_mutation *m, struct prism_error *err);
int c10d_server_set(struct c10d_server *server, const char *key, const void *value, size_t len,
                    struct prism_error *err);
int c10d_server_add(struct c10d_server *server, const char *key, int64_t delta, struct prism_error *err);
int c10d_server_append(struct c10d_server *server, const char *key, const void *value, size_t len,
                       struct prism_error *err);
int c10d_server_delete(struct c10d_server *server, const char *key, struct prism_error *err);
/* The value in *value (borrowed until the next mutation of any key); false when the key is missing. */
bool c10d_server_get(const struct c10d_server *server, const void *key, size_t key_len, const void **value,
                     size_t *len);
size_t c10d_server_num_keys(const struct c10d_server *server);
/* Each key that each client waits for. */
void c10d_server_each_waiting(const struct c10d_server *server,
                              void (*visit)(void *ctx, const struct c10d_peer *peer, const void *key, size_t len), void *ctx);

/* --- 3. On a thread of its own, for rank 0 of a job without a daemon --- */

struct c10d_server_thread;
/* As c10d_server_create, on a new event_base run by a new thread (all signals blocked there). Hooks run on it. */
struct c10d_server_thread *c10d_server_start_thread(const char *address, uint16_t port,
                                                    const struct c10d_hooks *hooks, struct prism_error *err);
uint16_t c10d_server_thread_port(const struct c10d_server_thread *thread);
/* End the loop, join, free; NULL is fine. */
void c10d_server_stop_thread(struct c10d_server_thread *thread);

#endif
