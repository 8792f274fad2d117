/* hear.h - what the mover does with a message of prismd or of a rank (proto/mover.h). With mover_lock.
 *
 * fd came with the message (-1 = none) and is taken. A message that cannot be ends the process (mover_failed): ranks are the user's
 * program, so nothing they say may be believed that would let a copy work on memory which is gone.
 */
#ifndef PRISM_MOVER_HEAR_H
#define PRISM_MOVER_HEAR_H

#include "prismd/mover/guest.h"

void hear_prismd(const struct mover_message *m, int fd);
/* text: of FAILED. */
void hear_rank(struct guest *g, struct mover_message *m, int fd, const char *text);

#endif
