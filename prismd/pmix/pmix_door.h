/* pmix_door.h - the port that this node's ranks connect to for PMIx: who comes is told by the first bytes.
 *
 * Every version of libpmix says the namespace, a NUL and the rank (4 bytes, network order) early in its first message. The
 * namespace's name is secret (pmix.c), so that a stranger on 127.0.0.1 gets no further than here.
 */
#ifndef PRISM_PRISMD_PMIX_DOOR_H
#define PRISM_PRISMD_PMIX_DOOR_H

#include "prismd/daemon.h"

struct bufferevent;
struct pmix_door;

/* A rank of that name came: the connection, with what it has said so far still in its input, belongs to the callee. Main
 * thread, without the lock. */
typedef void (*pmix_door_handler)(struct daemon *d, uint32_t rank, struct bufferevent *connection);

/* Listen on 127.0.0.1; name is copied. */
struct pmix_door *pmix_door_create(struct daemon *d, const char *name, pmix_door_handler handler, struct prism_error *err);
void pmix_door_destroy(struct pmix_door *door); /* NULL is fine */
uint16_t pmix_door_port(const struct pmix_door *door);

/* Where in the first bytes of a connection a rank of that namespace stands: its number, or -1 = not (yet) said. */
int64_t pmix_door_rank(const void *data, size_t len, const char *name);

#endif
