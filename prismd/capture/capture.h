/* capture.h - phase 1a: ranks run the real program; prismd is their network.
 *
 * Every operation has a home: for collectives the node of the communicator's rank 0, for a send the receiver's node.
 * When the last member has arrived the home combines the inputs (coll/combine.h); outputs go to the members' regions, into the
 * payload store, and the gates open. Sends are buffered: a group of sends alone never waits.
 */
#ifndef PRISM_PRISMD_CAPTURE_H
#define PRISM_PRISMD_CAPTURE_H

#include "prismd/daemon.h"

extern const struct phase_ops capture_ops;

int capture_begin(struct daemon *d, struct prism_error *err);
/* ok: finish the payload files, else remove them. */
int capture_end(struct daemon *d, bool ok, struct prism_error *err);
/* How many bytes of a part, or of a sum, the trace keeps by PRISM_PAYLOAD: all or none. */
uint64_t capture_kept(const struct daemon *d, int datatype, uint64_t bytes);

#endif
