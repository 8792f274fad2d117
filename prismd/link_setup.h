/* link_setup.h - how the prismds of a run find, check and connect to each other (blocking, before the event loop). */
#ifndef PRISM_PRISMD_LINK_SETUP_H
#define PRISM_PRISMD_LINK_SETUP_H

#include "prismd/daemon.h"

#define LINK_SETUP_SECONDS 60

struct link_peers {
    int *sockets;            /* owned; by node; -1 for itself */
    int64_t clock_offset_ns; /* to the coordinator's clock */
    int64_t clock_error_ns;
};

/* Full mesh. The coordinator publishes its address and the run's key in a file of mode 0600 in the trace folder; every
 * connection opens with that key and, where munge runs, with a munge credential of the same user. */
int link_setup(const struct conf *c, struct link_peers *out, struct prism_error *err);

/* The credential of lib munge for text, malloc'ed; NULL where munge does not run. */
char *link_credential_make(const char *text);
/* 0: of this user and for this text. */
int link_credential_check(const char *credential, const char *text);

#endif
