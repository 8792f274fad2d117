/* standing.h - does a rank of capture wait in communication on all of its streams? */
#ifndef PRISM_PRISMD_STANDING_H
#define PRISM_PRISMD_STANDING_H

#include "prismd/daemon.h"

/* Every stream that has operations under way stands at the gate of one that cannot be served yet, or waits by an event (recorded
 * nodes tell) for one that does. False: some stream computes, has a gate that may be opened, or a message of it is half here.
 * *any: there are operations under way. */
bool standing_everywhere(const struct graph *g, const struct rank *r, bool *any);

#endif
