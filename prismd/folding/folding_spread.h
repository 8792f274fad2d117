/* folding_spread.h - by how much the replicas that run in a folded capture differ: what the stand-ins are worth.
 *
 * Where two live members of a communicator differ in folded coordinates only (a sandbox rank in another replica), what they put
 * into its collectives is compared: sum of |a - b| over the mean sum of magnitudes, by operation and datatype; 0 means that the others
 * may well do the same, 1 and more that they do not. Kept with the trace (folding.json, docs/report.md). With one live replica
 * there is nothing to compare.
 */
#ifndef PRISM_PRISMD_FOLDING_SPREAD_H
#define PRISM_PRISMD_FOLDING_SPREAD_H

#include <jansson.h>

#include "common/bytes.h"
#include "graph/fold.h"
#include "prismd/daemon.h"

#define FOLDING_COMPARED 16384 /* elements of an input at most */

/* Home of a collective, when it is whole: inputs by place; stand_ins as of folding_live_members. */
void folding_spread_note(const struct daemon *d, const struct graph_comm *c, const uint32_t *stand_ins, const struct msg_part *what,
                         const void *const *inputs);
void folding_spread_begin(void);
void folding_spread_put(struct bytes *out);
void folding_spread_take(struct bytes_reader *b); /* coordinator: add a node's */
/* Into the trace; an older file is removed where the capture was not folded. */
int folding_spread_save(const struct conf *c, struct prism_error *err);
/* What the report says under "fold"; NULL: not folded. */
json_t *folding_report(const struct conf *c);

#endif
