/* paths.h - where the parts of Prism lie: beside this executable. */
#ifndef PRISM_CLI_PATHS_H
#define PRISM_CLI_PATHS_H

#include <stddef.h>

#include "common/error.h"

/* <folder of this executable>/prismd, or $PRISM_DAEMON. -1 with err when it is not there or not executable. */
int paths_daemon(char *out, size_t len, struct prism_error *err);
/* <folder of this executable>/../lib/libprism.so or ../lib/prism/libprism.so (packages), or $PRISM_LIBRARY. -1 with err when it cannot be read. */
int paths_library(char *out, size_t len, struct prism_error *err);
/* <folder of this executable>/../share/prism/synth, the jobs of prism synth, or $PRISM_SYNTH. */
int paths_presets(char *out, size_t len, struct prism_error *err);

#endif
