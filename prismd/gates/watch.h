/* watch.h - the thread that sees gates arrive and opens them at their time.
 *
 * A stream's groups stand in a queue; only the head can arrive, and the next only after the head was opened, except those that
 * are early: they arrive at any time. All are opened in their order. The thread
 * sleeps until a watched arrive word changes (FUTEX_WAITV where the kernel has it and the writers wake; it also looks
 * every `poll_ns`, because a GPU writes without waking) or the next gate is due.
 */
#ifndef PRISM_PRISMD_WATCH_H
#define PRISM_PRISMD_WATCH_H

#include "prismd/daemon.h"

struct watch *watch_create(struct daemon *d);
void watch_destroy(struct watch *w); /* joins the thread; NULL is fine; call without the lock */
/* What the thread does once arrivals come without wake-ups (the writer is a GPU), for microseconds of precision: looks every poll_ns all
 * the same; spins while a stream may arrive; spins as long as a rank lives here, so that it is awake when something is announced, and when
 * a gate is due. */
enum watch_spin { WATCH_SLEEPS, WATCH_SPINS_AT_GATES, WATCH_SPINS };
/* Interval of the look for writers that do not wake. With the lock held. */
void watch_set_poll(struct watch *w, int64_t poll_ns, enum watch_spin spin);

/* Until the next watch_set_poll: writers are software GPUs, which wake. Looks are then for nothing, and few; nothing is spun for: on a busy
 * machine arrivals may seem to come without wake-ups. With the lock held. */
void watch_writers_wake(struct watch *w);

/* Whether it spins all the time now (WATCH_SPINS). Needs no lock. */
bool watch_spins(const struct watch *w);

/* There is something to look at (phase_ops.look). Needs no lock. */
void watch_ring(struct watch *w);

/* With the lock held. A new group: queued on its stream. */
void watch_add(struct watch *w, struct group *group);
/* Open the gate at that time (CLOCK_MONOTONIC ns; in the past = now). The group must have arrived. */
void watch_open_at(struct watch *w, struct group *group, int64_t ns);
/* Open what is due now: for who keeps the lock for long. */
void watch_open_due(struct watch *w);
/* What is to be opened for this rank is opened, and ends, so much later. */
void watch_delay_rank(struct watch *w, const struct rank *r, int64_t ns);
/* Raise a word of memory to `value` at that time (in the past = now), and wake who sleeps on it; a word that has reached it stays.
 * The memory must live until watch_drop_writes. */
void watch_write_at(struct watch *w, uint32_t *word, uint32_t value, int64_t ns);
void watch_drop_writes(struct watch *w);
/* The outputs lie in the region. */
void watch_mark_ready(struct group *group);
/* Forget every group of the rank (its process is gone) and free them. */
void watch_drop_rank(struct watch *w, struct rank *r);

#endif
