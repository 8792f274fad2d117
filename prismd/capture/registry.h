/* registry.h - communicators of a capture: who is a member of what. Kept by the coordinator, known to every node. */
#ifndef PRISM_PRISMD_REGISTRY_H
#define PRISM_PRISMD_REGISTRY_H

#include "prismd/daemon.h"

void registry_begin(struct daemon *d);
void registry_end(struct daemon *d);
/* A local rank called; it gets COMM_READY once every member has. */
int registry_comm_init(struct daemon *d, struct rank *r, const struct msg_comm_init *m);
int registry_comm_split(struct daemon *d, struct rank *r, const struct msg_comm_split *m);
/* Coordinator, folded capture: nobody else will come before one is made. True: some were. fail: if none can be, that is an error. */
bool registry_settle(struct daemon *d, bool fail);
/* Coordinator: each communicator that some members have called for and others have not, in words. */
void registry_tell_pending(const struct daemon *d, void (*tell)(void *arg, const char *text), void *arg);

#endif
