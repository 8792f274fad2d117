/* switch.h - context switching of device memory in capture: the rank's side of proto/mover.h.
 *
 * On if WELCOME brought the socket of the device's mover, in capture. Then the program's memory is ours (vmm.h), its streams
 * are watched (park.h), and a switch thread serves the socket:
 *
 *   EVICT     park the streams and wait until they stand still and no call holds the memory; PARKED. Then every range
 *             (physical.h) goes out, up to SWITCH_WINDOW at a time, and is unmapped and released once copied; OUT_END.
 *   CANCEL    before PARKED: streams go on; CANCELLED.
 *   RESTORE   every range gets new physical memory at its old addresses and comes in; streams go on; IN_END.
 *   GRANT     goes to grant.h.
 *
 * The program's host threads run on all the while and sleep only in what residence.h says. The thread is created with all
 * signals blocked and calls CUDA as the library, not as the program.
 */
#ifndef PRISM_PRELOAD_SWITCH_H
#define PRISM_PRELOAD_SWITCH_H

#include <stdint.h>

#define SWITCH_WINDOW 16

/* CUDA is set up, the context current. The socket is ours from now on. */
void switch_start(int socket);
/* The process ends and CUDA with it: stay on the device, or come back to it. */
void switch_stop(void);
/* A forked child has no part in it. */
void switch_forget(void);

/* The rank cannot be moved from now on, because `why` ("it ..."). Warns the first time. */
void switch_tie(const char *why);

/* To prismd, by way of the mover. */
/* least: what will do (MOVER_WANT). */
void switch_send_want(uint64_t bytes, uint64_t least, uint32_t flag);
void switch_send_less(uint64_t bytes);

#endif
