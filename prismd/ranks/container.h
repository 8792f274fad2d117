/* container.h - programs that make a container around the ranks (bwrap, apptainer, a script that says PRISM_CONTAINER=1): prismd stays
 * outside, the ranks find it by an abstract socket, and so must share its network namespace.
 *
 * One that does not is the end of the run, with one line: such ranks inherit a pipe, over which libprism.so says so, before the
 * program's main() (preload/container.h).
 */
#ifndef PRISM_PRISMD_CONTAINER_H
#define PRISM_PRISMD_CONTAINER_H

#include "prismd/daemon.h"

/* Does the program start others where another root, or none of our files, is seen? */
bool container_entered(const struct conf *c);
/* Listen to what ranks say there; nothing where the program enters no container. */
int container_listen(struct daemon *d, struct prism_error *err);
void container_unlisten(void);
/* In a rank's process, before exec: what its library needs to find out. */
void container_environment(const struct conf *c);

#endif
