/* dispatch.h - messages of the preload library, as they come in on a rank's socket. */
#ifndef PRISM_PRISMD_DISPATCH_H
#define PRISM_PRISMD_DISPATCH_H

#include "prismd/daemon.h"

/* One datagram of a rank that has said HELLO. A malformed one is the rank's failure (its connection is closed). */
void dispatch_message(struct daemon *d, struct rank *r, const void *data, size_t len);

#endif
