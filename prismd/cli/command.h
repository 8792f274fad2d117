/* command.h - run another program (Slurm's, munge's) and take what it prints. */
#ifndef PRISM_CLI_COMMAND_H
#define PRISM_CLI_COMMAND_H

#include <stdbool.h>

#include "common/bytes.h"

/* argv[0] is looked for in PATH. out and err (either may be NULL: dropped) are cleared, filled and get a NUL behind their
 * len bytes. Returns the exit code, 128 + n after signal n, 127 when there is no such program, 124 when it was ended because
 * `seconds` had passed. */
int command_run(const char *const argv[], int seconds, struct bytes *out, struct bytes *err);
/* Is there such a program in PATH? */
bool command_exists(const char *name);
/* The first line of b, without its end; cuts b there. "" when empty. */
const char *command_line(struct bytes *b);

#endif
