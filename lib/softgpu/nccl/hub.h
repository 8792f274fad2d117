/* hub.h - the hub: one thread in each process that made a unique id; it serves the communicators made from
 * those ids.
 *
 * The hub receives what each rank posts, matches it, computes results and model times, and answers. All its
 * state belongs to its thread, so nothing here is locked. It sleeps in epoll and never blocks on a rank.
 */
#ifndef SOFTGPU_NCCL_HUB_H
#define SOFTGPU_NCCL_HUB_H

#include "softgpu/nccl/wire.h"

#define SGN_ID_MAGIC 0x53474e43434c3031ull

/* A fresh id of this process's hub, which is started if need be. 0, or -1 with the reason in text. */
int sgn_hub_new_id(struct sgn_id *id, char text[SGN_TEXT]);

/* Before a normal exit: wait until the communicators served here are gone, or nothing has happened in them
 * for idle_seconds, so that ranks elsewhere can finish. Returns at once if nothing is served. */
void sgn_hub_linger(int idle_seconds);

/* Once a process, before its first thread of ours: what happens at exit and at fork (reader.c). */
void sgn_process_init(void);

/* In a forked child: forget the hub and close its sockets (its thread did not come along). */
void sgn_hub_forked(void);

#endif
