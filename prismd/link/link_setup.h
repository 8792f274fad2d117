/* link_setup.h - how the prismds of a run find, check and connect to each other (blocking, before the event loop). */
#ifndef PRISM_PRISMD_LINK_SETUP_H
#define PRISM_PRISMD_LINK_SETUP_H

#include "prismd/daemon.h"

#define LINK_SETUP_SECONDS 60 /* conf.link_seconds = 0 */
#define LINK_NAME_MAX      64

struct link_peers {
    int *sockets;                 /* owned; by node; -1 for itself */
    char (*names)[LINK_NAME_MAX]; /* owned; by node, as messages call it; "" for itself */
    int64_t clock_offset_ns;      /* to the coordinator's clock */
    int64_t clock_error_ns;       /* at the coordinator: the largest of all nodes */
};

/* Full mesh. The coordinator publishes its address and the run's key in a file of mode 0600 in the trace folder; every
 * connection opens with that key and, where munge runs, with a munge credential of the same user. Whoever connects without
 * them is dropped. -1 after conf.link_seconds (PRISM_EXIT_DAEMON, naming who is missing), or once interrupted (asked often;
 * may be NULL) says so (PRISM_EXIT_INTERRUPTED). */
int link_setup(const struct conf *c, bool (*interrupted)(void *ctx), void *ctx, struct link_peers *out,
               struct prism_error *err);
/* Close and free. */
void link_peers_clear(const struct conf *c, struct link_peers *peers);

/* The credential of lib munge for text, malloc'ed; NULL where munge does not run. */
char *link_credential_make(const char *text);
/* 0: of this user and for this text. */
int link_credential_check(const char *credential, const char *text);

#endif
