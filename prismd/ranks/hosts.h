/* hosts.h - on which machine a logical node's processes run: where a connection to its name must go. */
#ifndef PRISM_PRISMD_HOSTS_H
#define PRISM_PRISMD_HOSTS_H

#include "prismd/daemon.h"

/* "0-511=this-machine,512-1023=10.0.0.2": runs of logical nodes and where they are, by address, this machine by its own name
 * (which it may have several addresses for), for preload/names.c. In capture where the
 * node's ranks are; afterwards that of its first live rank, and the first machine's for nodes without (its store answers for
 * absent ranks). malloc'ed. */
char *hosts_of_nodes(const struct daemon *d);

#endif
