/* tell.h - what context switching says: a line of progress, what one message of the mover means, and sums of counts. */
#ifndef PRISM_PRISMD_SWITCHING_TELL_H
#define PRISM_PRISMD_SWITCHING_TELL_H

#include <stddef.h>

#include "prismd/switching/resident.h"

void tell_add_counts(struct resident_counts *to, const struct resident_counts *more);
/* Which ranks are where, and what has been moved so far: "9 of 16 ranks on the device, ...". */
void tell_progress(const struct resident_state *s, const struct resident_counts *c, char *line, size_t len);
/* A message to or from a rank by way of the mover, in words; false: nobody needs to know. */
bool tell_message(const struct mover_message *m, char *line, size_t len);

#endif
