/* enough.h - --prism-iterations=K: capture (and calibration, which runs the same program) ends early, and that is success.
 *
 * Every node looks now and then how many iterations its own ranks have behind them and tells the coordinator when all have
 * enough; when every node has, the coordinator tells all to stop. Ranks then get SIGTERM; how they end is no failure. One
 * iteration more than K (three at least) is waited for: a period shows when it repeats, and what the last of the K delivers
 * must have arrived; what is recorded beyond K is cut off (graph_truncate). Calibration goes on for some more (replay/measured.h).
 */
#ifndef PRISM_PRISMD_ENOUGH_H
#define PRISM_PRISMD_ENOUGH_H

#include "prismd/daemon.h"

/* A phase begins on this node. */
void enough_begin(struct daemon *d);
/* Called often, with the lock held; looks every half second. */
void enough_tick(struct daemon *d);
/* The phase was ended because of it. */
bool enough_reached(void);

#endif
