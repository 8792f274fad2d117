/* movers.h - context switching in capture: the mover processes of this node (one a device that several ranks share), their
 * sockets, and between them and the ranks the policy (resident.h).
 *
 * PRISM_SWITCHING=auto|0|1. auto: where 2 to 256 ranks share a device, except on software GPUs, whose memory is the host's
 * own, unless PRISM_DEVICE_MEMORY says that they are to be taken for smaller. A mover that cannot be started is a warning,
 * and its device is not switched; one that is lost later ends the run. All with the daemon's lock held.
 */
#ifndef PRISM_PRISMD_MOVERS_H
#define PRISM_PRISMD_MOVERS_H

#include "prismd/daemon.h"
#include "prismd/switching/resident.h"

/* A capture phase begins: d->ranks are made and none has been started. */
void movers_begin(struct daemon *d);
/* It is over: the ranks have ended. Safe without begin. */
void movers_end(struct daemon *d);

/* The rank's process may be started now. False: sched_may_start() will be called when it may. */
bool movers_may_start(struct daemon *d, struct rank *r);
/* The rank has come to an operation of a communicator; members: world ranks. Before its gate may be opened. */
void movers_joined(struct daemon *d, struct rank *r, struct resident_operation op, const int32_t *members, uint32_t n);
/* A gate of the rank may be opened as far as communication goes. False: not before the rank is in; then sched_is_in(). */
bool movers_gate_ready(struct daemon *d, struct rank *r);
/* Its memory is on the device (always, where nothing is switched). */
bool movers_is_in(const struct daemon *d, const struct rank *r);
void movers_gate_opened(struct daemon *d, struct rank *r);
/* The rank blocked, or a stream of it has come to its gate. */
void movers_look(struct daemon *d, struct rank *r);
void movers_rank_ended(struct daemon *d, struct rank *r);
void movers_tick(struct daemon *d); /* also a line of progress a device, every ten seconds */
bool movers_switch(void);           /* the memory of some device of this node is switched */

/* The rank's end of a new socket to its mover, for WELCOME; the caller closes it. -1: it is not switched. */
int movers_attach(struct daemon *d, struct rank *r);
/* Take what movers have said already: why one ended, before what ranks say of that. */
void movers_hear(struct daemon *d);
/* A child has ended; false: it is no mover. */
bool movers_reaped(struct daemon *d, pid_t pid, int status);

/* Sums of all devices of this node, of the capture that runs or ran last. */
struct resident_counts movers_count(void);

#endif
