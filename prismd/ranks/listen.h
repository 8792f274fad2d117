/* listen.h - reading what ranks sent. Listening itself: rank.h. */
#ifndef PRISM_PRISMD_LISTEN_H
#define PRISM_PRISMD_LISTEN_H

#include "prismd/daemon.h"

/* Handle everything the rank's process has sent before it ended. With the lock held. */
void listen_drain(struct rank *r);

#endif
