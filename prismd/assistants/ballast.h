/* ballast.h - in emulation: the device memory that the full job's communicators would cost a rank and the ones here do not
 * (coll/ballast.h). The table is PRISM_BALLAST's; without one nothing is allocated, and the report says so.
 */
#ifndef PRISM_PRISMD_BALLAST_H
#define PRISM_PRISMD_BALLAST_H

#include "prismd/daemon.h"

/* For a phase. -1 with err: PRISM_BALLAST names no table. */
int ballast_begin(const struct daemon *d, struct prism_error *err);
void ballast_end(void);
/* Complete the answer about one of the rank's communicators, whose size and real_size are set, and count it. */
void ballast_ask(const struct daemon *d, const struct rank *r, struct msg_comm_ready *ready);
/* Bytes asked of the rank so far. */
uint64_t ballast_bytes(uint32_t rank);

#endif
