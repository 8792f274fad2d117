/* starter.h - a small process of prismd from which ranks are forked, where they are many.
 *
 * A fork copies what prismd has open and mapped, and the exec closes it again: with each rank that has connected that is more, so that
 * a world of ranks costs its square (a millisecond a rank at 2,048 on a node). The starter is forked before the first of a phase
 * and stays as it was: it has the ranks' records, as they were made before any started, and closes what an exec would close. It
 * clones with CLONE_PARENT: a rank is prismd's own child all the same, and ends with it.
 */
#ifndef PRISM_PRISMD_STARTER_H
#define PRISM_PRISMD_STARTER_H

#include "prismd/daemon.h"

/* A child of this process that runs become(r, this process), which does not return. Where there is no starter, or it is gone or
 * cannot clone, it is forked from here. -1 with errno. */
pid_t starter_fork(struct rank *r, void (*become)(struct rank *r, pid_t parent));

/* A child has ended and was waited for: was it the starter? Its number may be another process's from now on. */
bool starter_reaped(pid_t pid);

/* The phase's ranks have ended. Nothing if there is none. */
void starter_end(void);

#endif
