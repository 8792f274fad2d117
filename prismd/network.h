/* network.h - which network profile a run uses. */
#ifndef PRISM_PRISMD_NETWORK_H
#define PRISM_PRISMD_NETWORK_H

#include "prismd/daemon.h"

/* PRISM_NETWORK, else network.json in the trace folder. -1 when there is none, or it is bad. */
int network_load(struct daemon *d, struct prism_error *err);
/* Before anything runs: can the phases that need a profile have one? -1 where they cannot: the one that was given is not there or
 * bad, or none was and calibration could measure none. */
int network_check(struct daemon *d, struct prism_error *err);
/* There is none: measure this machine's links (prism doctor --measure on this node's devices) into the trace folder and
 * load that; the nominal one for a world of one rank, which communicates with none. err is replaced. */
int network_measure(struct daemon *d, struct prism_error *err);
/* Calibration used it: it stays with the trace, so that later phases and `prism predict` take the same. */
int network_keep(struct daemon *d, struct prism_error *err);
void network_clear(struct daemon *d);

#endif
