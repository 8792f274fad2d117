/* local.h - this node's part of a phase: make its ranks, start them, see them end, clean up. */
#ifndef PRISM_PRISMD_LOCAL_H
#define PRISM_PRISMD_LOCAL_H

#include "common/bytes.h"
#include "prismd/daemon.h"

struct local_phase {
    enum msg_phase kind;
    enum msg_transport transport;
    const uint32_t *live; /* world ranks of all nodes, ascending */
    uint32_t nlive;
};

/* Signals, child exits, failure handling; once. */
int local_init(struct daemon *d, struct prism_error *err);
void local_fini(struct daemon *d);

/* Events until someone breaks the loop off: as event_base_dispatch, but that the thread may spin. */
int local_handle_events(struct daemon *d);

/* done is called (lock held, main thread) when every local rank has ended and the phase's state has been wound up;
 * result is what this node has to tell the coordinator (phases.c knows the form). */
typedef void (*local_done)(struct daemon *d, const struct bytes *result);
void local_begin(struct daemon *d, const struct local_phase *phase, local_done done);
/* This node cannot take part in the phase that is being begun, for d->failure: the others are told, then done is called. */
void local_refuse(struct daemon *d, local_done done);
/* Stop early: the failure is in d->failure. Safe to call again. */
void local_stop(struct daemon *d);

#endif
