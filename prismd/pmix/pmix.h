/* pmix.h - PMIx for the ranks: prismd serves the logical namespace, of world ranks on world / gpus-per-node nodes.
 *
 * Every logical node whose ranks run here has a server of its own (pmix_node.h), because which ranks are local is a
 * property of a PMIx server. Fences go to all prismds (pmix_fence.h). A rank that does not run in this phase takes part in
 * every fence at once, and what it put comes from the trace (pmix_log.h), where capture wrote it.
 *
 * All with the lock held, in the main thread, except where stated. PRISM_PMIX=0 leaves ranks without PMIx.
 */
#ifndef PRISM_PRISMD_PMIX_H
#define PRISM_PRISMD_PMIX_H

#include "prismd/daemon.h"

void pmix_init(void); /* once, before links carry messages */
/* The coordinator, before it says LINK_PHASE: the namespace's name, which is also what lets a process in, to all. */
void pmix_name_phase(struct daemon *d);

/* A phase, with the ranks of all nodes that run in it. Later phases read the trace. */
int pmix_begin(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err);
void pmix_end(struct daemon *d);
/* In a rank's process, before exec: its variables. */
void pmix_environment(const struct rank *r);

/* A rank of this node ended, before its exit has consequences. */
void pmix_rank_ended(struct daemon *d, const struct rank *r);
/* A child of this prismd ended: true if it was one of these servers. */
bool pmix_reaped(struct daemon *d, pid_t pid, int status);

/* The coordinator, after capture: write pmix.log into the trace, or remove an old one. */
int pmix_save(const char *trace, struct prism_error *err);

#endif
