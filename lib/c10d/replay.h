/* replay.h - what absent ranks did to the store, done again at the right moment.
 *
 * Rule (one key at a time, keys do not know each other): walk the key's records in order. A virtual rank's mutation is
 * applied as soon as every sandbox mutation recorded before it on this key has happened; a sandbox rank's own is never
 * applied, its program does it. Sandbox mutations count per author, so two sandbox ranks that come in another order
 * than in capture hold nothing up for ever. A sandbox that does more than recorded builds up credit; that is no error.
 *
 *     create, start (preloads what precedes the first sandbox mutation of each key), then c10d_replay_happened from the
 *     server's on_mutation hook
 */
#ifndef PRISM_C10D_REPLAY_H
#define PRISM_C10D_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "c10d/log.h"
#include "c10d/server.h"

struct c10d_replay;

/* Applies one virtual mutation; -1 (err filled) ends the replay of that call. */
typedef int (*c10d_apply)(void *ctx, const struct c10d_mutation *m, struct prism_error *err);
int c10d_replay_apply_to_server(void *server, const struct c10d_mutation *m, struct prism_error *err);

/* log is borrowed and must not change. sandbox: n logical ranks, any order, copied. */
struct c10d_replay *c10d_replay_create(const struct c10d_log *log, const uint32_t *sandbox, size_t n,
                                       c10d_apply apply, void *ctx);
void c10d_replay_destroy(struct c10d_replay *replay); /* NULL is fine */
int c10d_replay_start(struct c10d_replay *replay, struct prism_error *err);
/* A mutation of key by author has been applied. Authors outside the sandbox and unknown keys are ignored. */
int c10d_replay_happened(struct c10d_replay *replay, uint32_t author, const void *key, size_t key_len,
                         struct prism_error *err);
size_t c10d_replay_pending(const struct c10d_replay *replay); /* virtual mutations not applied yet */

#endif
