/* copy.h - the two directions: one thread and one stream each, so that both copy engines work at once.
 *
 * A thread takes waiting ranges in batches: import, map one behind the other, one cuMemSetAccess, copies by extents, an
 * event. It prepares the next batch while the engine copies this one, and takes down (unmap, release, close, COPIED) the
 * one before. Small ranges are most of what PyTorch has, and mapping costs more than copying them would: hence batches.
 */
#ifndef PRISM_MOVER_COPY_H
#define PRISM_MOVER_COPY_H

#include "prismd/mover/guest.h"
#include "prismd/mover/hand.h"

enum copy_direction { COPY_OUT, COPY_IN };

/* Start the threads. */
void copy_begin(void);
/* With mover_lock: queue a copy of the range from or to the memory, which is taken; without a handle it is imported. */
void copy_queue(enum copy_direction direction, struct range *r, struct memory m);
/* Release memory that was imported and close its descriptor. */
void copy_release(struct memory m);

#endif
