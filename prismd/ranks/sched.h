/* sched.h - which ranks run in capture: how many at once, and only with their memory on the device (movers.h).
 *
 * A thousand ranks on a few cores make progress fastest when few of them run at a time. A rank runs from its start, or
 * from the opening of a gate it waits at, until its host thread blocks (SYNC_ENTER, a communicator being made, waiting
 * in the store), or a stream stands at its next gate while the host is in a synchronisation, or it has been quiet for SCHED_QUIET_MS: the
 * bound is for speed only, so a rank that is wrongly thought to be running never holds up the others for long. A process that has not
 * become its rank yet is loading programs and libraries without a word: it may be quiet for SCHED_START_MS, so that thousands of ranks
 * start one behind the other and not all at once.
 */
#ifndef PRISM_PRISMD_SCHED_H
#define PRISM_PRISMD_SCHED_H

#include "prismd/daemon.h"

#define SCHED_QUIET_MS 20
#define SCHED_START_MS 1000

void sched_begin(struct daemon *d, uint32_t runnable); /* a phase begins; 0 = no bound */
void sched_want_start(struct daemon *d, struct rank *r); /* start the process when there is room */
void sched_may_start(struct daemon *d, struct rank *r);  /* the same: its device has room for it */
void sched_open(struct daemon *d, struct group *g);      /* open this arrived gate when its rank may run */
void sched_opened(struct daemon *d, struct rank *r);     /* a gate of capture was opened */
void sched_arrived(struct daemon *d, struct rank *r);    /* a stream of it stands at a gate */
void sched_is_in(struct daemon *d, struct rank *r);      /* its memory is back: gates held for that may open */
void sched_blocked(struct daemon *d, struct rank *r);    /* its host thread is about to block */
void sched_running(struct daemon *d, struct rank *r);    /* something it waited for has come */
void sched_ended(struct daemon *d, struct rank *r);
void sched_tick(struct daemon *d);                       /* every SCHED_QUIET_MS */
void sched_end(struct daemon *d);

#endif
