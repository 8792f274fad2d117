/* store.h - the c10d store that the ranks use, with what absent ranks did to it.
 *
 * The coordinator serves it. In capture every mutation is logged with its author; in later phases the log is replayed
 * around the ranks that run (c10d/replay.h). A rank is known by its node and the local port of its connection, which its
 * preload library reports.
 */
#ifndef PRISM_PRISMD_STORE_H
#define PRISM_PRISMD_STORE_H

#include "common/bytes.h"
#include "prismd/daemon.h"

/* Coordinator: listen (a fresh, empty store a phase). Other nodes: host and port come from the coordinator. */
struct store *store_create(struct daemon *d, struct prism_error *err);
struct store *store_remote(struct daemon *d, const char *host, uint16_t port);
void store_destroy(struct store *s); /* NULL is fine */

/* MASTER_ADDR of this node's ranks: the coordinator's host name where that resolves, else a numeric address. */
const char *store_host(const struct store *s);
uint16_t store_port(const struct store *s);

/* A rank of this node connected from that local port (other nodes' are passed on to the coordinator). */
void store_rank_connected(struct store *s, uint32_t port, uint32_t rank);

/* Does that rank wait for a key? key (may be NULL, size 0): which. Known to the coordinator only: false elsewhere. */
bool store_has_waiting(const struct store *s, uint32_t rank, char *key, size_t size);

/* Capture: the log so far, encoded. */
void store_log_encode(struct store *s, struct bytes *out);
/* Later phases: replay the log around the ranks that run. */
int store_replay(struct store *s, const void *log, size_t len, const uint32_t *live, uint32_t nlive,
                 struct prism_error *err);

#endif
