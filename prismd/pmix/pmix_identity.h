/* pmix_identity.h - what a rank's process and its PMIx server are told of the job before they speak: names and variables. */
#ifndef PRISM_PRISMD_PMIX_IDENTITY_H
#define PRISM_PRISMD_PMIX_IDENTITY_H

#include "common/names.h"
#include "prismd/daemon.h"

/* A logical node's name, that which the program's gethostname gives too (under Slurm; else that is the machine's). */
void pmix_node_name(const struct conf *c, uint32_t node, char name[NAMES_NODE_MAX]);
/* All of them in order, with commas between; malloc'ed. */
char *pmix_node_names(const struct conf *c);
/* In a rank's process, before exec: the variables of a client of that namespace and port; without a namespace (NULL) only takes
 * away those of other servers. */
void pmix_set_variables(const struct rank *r, const char *name, uint16_t port);

#endif
