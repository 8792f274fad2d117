/* pmix_node.h - the PMIx server of one logical node whose ranks are started here: a process (prism-pmix) that is started
 * when the first of them connects (pmix_door.h). Bytes between a rank and the process pass through prismd unchanged.
 */
#ifndef PRISM_PRISMD_PMIX_NODE_H
#define PRISM_PRISMD_PMIX_NODE_H

#include "common/bytes.h"
#include "prismd/daemon.h"
#include "prismd/pmix/pmix_wire.h"

struct bufferevent;
struct pmix_node;

/* Lock held, main thread. id is pmix_node_create's. */
struct pmix_node_events {
    void (*describe)(struct daemon *d, uint32_t id, struct bytes *job); /* fill the body of PMIX_WIRE_JOB */
    void (*message)(struct daemon *d, uint32_t id, enum pmix_wire_type type, struct bytes_reader *message);
};

/* node: logical, for messages to the user. events: borrowed. Nothing is started. */
struct pmix_node *pmix_node_create(struct daemon *d, uint32_t node, uint32_t id, const struct pmix_node_events *events);
void pmix_node_destroy(struct pmix_node *n); /* ends the process; NULL is fine */
/* A rank's connection, taken over. Main thread, without the lock. */
void pmix_node_connect(struct pmix_node *n, struct bufferevent *rank);
/* The process, started if it is not yet. Failure ends the phase (daemon_fail). */
int pmix_node_start(struct pmix_node *n);
bool pmix_node_started(const struct pmix_node *n);
/* Starts the process if need be. */
void pmix_node_send(struct pmix_node *n, enum pmix_wire_type type, const struct bytes *body);
/* A child of this prismd ended: true if it was this one. */
bool pmix_node_reaped(struct pmix_node *n, pid_t pid, int status);

#endif
