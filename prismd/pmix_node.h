/* pmix_node.h - the PMIx server of one logical node whose ranks are started here: a port, and behind it a process
 * (prism-pmix) that is started when the first rank connects, so that programs without PMIx cost a listening socket a
 * logical node. Bytes between a rank and the process pass through prismd unchanged.
 */
#ifndef PRISM_PRISMD_PMIX_NODE_H
#define PRISM_PRISMD_PMIX_NODE_H

#include "prismd/daemon.h"
#include "prismd/pmix_wire.h"

struct pmix_node;

/* A message of the process; lock held, main thread. */
typedef void (*pmix_node_handler)(struct daemon *d, uint32_t id, enum pmix_wire_type type, struct bytes_reader *message);

/* Listen on 127.0.0.1. node: logical, for messages to the user; job: the body of PMIX_WIRE_JOB, copied; id: for handler. */
struct pmix_node *pmix_node_create(struct daemon *d, uint32_t node, const struct bytes *job, pmix_node_handler handler,
                                   uint32_t id, struct prism_error *err);
void pmix_node_destroy(struct pmix_node *n); /* ends the process; NULL is fine */
uint16_t pmix_node_port(const struct pmix_node *n);
/* The process, started if it is not yet. Failure ends the phase (daemon_fail). */
int pmix_node_start(struct pmix_node *n);
bool pmix_node_started(const struct pmix_node *n);
/* Starts the process if need be. */
void pmix_node_send(struct pmix_node *n, enum pmix_wire_type type, const struct bytes *body);
/* A child of this prismd ended: true if it was this one. */
bool pmix_node_reaped(struct pmix_node *n, pid_t pid, int status);

#endif
