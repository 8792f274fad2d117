/* profile.h - measurements turned into the network profile of lib/coll. */
#ifndef PRISM_CLI_PROFILE_H
#define PRISM_CLI_PROFILE_H

#include "measure_group.h"

/* Fit, and write path atomically. */
int profile_write(const struct measure_result *result, const char *path, struct prism_error *err);

#endif
