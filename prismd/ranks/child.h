/* child.h - processes that prismd starts: ranks (spawn.c), and beside them assistants, movers, PMIx servers, the prism command.
 *
 * child_find is for the parent, the others are for the child between fork and exec; they fail silently where going on is
 * better than not.
 */
#ifndef PRISM_PRISMD_CHILD_H
#define PRISM_PRISMD_CHILD_H

#include <limits.h>
#include <sys/types.h>

/* Path of an installed program, in the folder of prismd itself. -1: it is not there (path names where it would be) or
 * cannot be run. */
int child_find(const char *name, char path[PATH_MAX]);

/* The child ends with its parent (the process `parent`; _exit if that is gone already), in a process group of its own: a
 * terminal's signals are for prismd to hand on. No signal is blocked, SIGPIPE is as usual. */
void child_begin(pid_t parent);
/* Likewise, for what is not a rank: standard input and output, which are the program's, lead to /dev/null. */
void child_detach(pid_t parent);
/* The descriptor stays open over exec. */
void child_keep(int fd);
/* Take the preload library, which is for ranks, out of LD_PRELOAD; what the user has there stays. */
void child_drop_preload(const char *library);

#endif
