/* info_part.h - `prism info --rank`, `--communicator`: one part of a trace, read without the rest (graph/file.h). */
#ifndef PRISM_CLI_INFO_PART_H
#define PRISM_CLI_INFO_PART_H

#include <stdbool.h>

/* The rank (or the communicator, by its number in the trace) that `number` names; the other is NULL. Prints it; returns the exit
 * code. */
int info_rank(const char *dir, const char *number, bool as_json, const char *command);
int info_communicator(const char *dir, const char *number, bool as_json, const char *command);

#endif
