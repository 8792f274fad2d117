/* switching.h - what context switching did in a capture: gathered from the nodes, kept with the trace (switching.json), so
 * that every later run on it reports it too. docs/report.md has the names.
 */
#ifndef PRISM_PRISMD_SWITCHING_H
#define PRISM_PRISMD_SWITCHING_H

#include <jansson.h>

#include "common/bytes.h"
#include "common/error.h"

void switching_put(struct bytes *out);           /* this node's counts, of the capture that ended last */
void switching_take(struct bytes_reader *b);     /* coordinator: add a node's */
void switching_begin(void);                      /* coordinator: none yet */
/* Into the trace; nothing is written, and an older file removed, when no rank was switched. */
int switching_save(const char *trace, struct prism_error *err);
json_t *switching_load(const char *trace); /* NULL: there was none */

#endif
