/* progress.h - how far capture is: lines of the coordinator, every ten seconds in worlds of more than 64 ranks and where device
 * memory is switched (movers.h, which then says more). */
#ifndef PRISM_PRISMD_PROGRESS_H
#define PRISM_PRISMD_PROGRESS_H

#include "prismd/daemon.h"

/* Of one node, or of all. */
struct progress {
    uint32_t ranks, began, ended; /* began: have become their rank */
    uint64_t groups;              /* of operations that are over */
    uint32_t iterations;          /* done by the one that is looked at, as far as can be told */
};

void progress_begin(struct daemon *d);
void progress_opened(void);              /* a group of operations is over */
void progress_tick(struct daemon *d);    /* often; the lock is held */

/* The line. rate: groups a second of late; seconds: since capture began; ending: since the first rank ended; wanted: --prism-iterations, 0 = not given. */
void progress_line(const struct progress *p, double rate, double seconds, double ending, uint32_t wanted, char *line, size_t len);

#endif
