/* gloo.h - process groups that communicate on the CPU (Gloo), told from what their members did to the c10d store.
 *
 * Gloo connects its members by TCP to addresses that each has put into the store, under
 * <prefix>/<group>//cpu//<context>/<rank> (torch 2.x: ProcessGroupGloo's rendezvous through prefix stores). Prism sees
 * nothing of what goes over these connections, so a live rank cannot be given what an absent one would have said.
 */
#ifndef PRISM_PRISMD_GLOO_H
#define PRISM_PRISMD_GLOO_H

#include <stdbool.h>

#include "c10d/log.h"

#define GLOO_NAME_MAX 128
/* Does a member of a Gloo group set this key? name (of GLOO_NAME_MAX bytes): the group's, in the store. */
bool gloo_names_group(const void *key, size_t len, char *name);

/* -1, with err naming the group and its absent members, if a rank of live[] shares a group with one that is not. */
int gloo_check(const struct c10d_log *log, const uint32_t *live, uint32_t nlive, struct prism_error *err);

#endif
