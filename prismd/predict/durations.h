/* durations.h - durations measured in calibration, which replace the network profile's for the operations they are of.
 *
 * Kept by what decides a duration: communicator (global index) and the list of operations of the group with datatype,
 * count and peer. Only what stands for the full job is measured: every member of the communicator took part, by itself
 * or by an assistant in its place, on the link class it would have (assist.c decides). A duration is the median of its
 * samples; a sample is the time from the last participant's start to its end, taken on the assistant, which starts last.
 *
 * On disk: durations.json of the trace (docs/formats/durations.md).
 */
#ifndef PRISM_PRISMD_DURATIONS_H
#define PRISM_PRISMD_DURATIONS_H

#include "common/bytes.h"
#include "common/error.h"
#include "graph/graph.h"

#define DURATIONS_NONE    UINT32_MAX
#define DURATIONS_SAMPLES 64 /* kept of one group, the latest */

struct durations;

struct durations *durations_create(void);
void durations_destroy(struct durations *d); /* NULL is fine */

/* The number of the group's entry, which is made if there is none; good for durations_add. */
uint32_t durations_entry(struct durations *d, uint32_t comm, const struct graph_part *parts, uint32_t nparts);
/* entry DURATIONS_NONE, or one that is not there, is ignored, and so is a time that none can be (a million seconds). */
void durations_add(struct durations *d, uint32_t entry, int64_t ns);
/* Median, nanoseconds; negative: not measured. d may be NULL. */
double durations_find(const struct durations *d, uint32_t comm, const struct graph_part *parts, uint32_t nparts);
uint32_t durations_entries(const struct durations *d); /* all; the next new one gets this number */
uint32_t durations_count(const struct durations *d); /* entries with samples; NULL: 0 */

/* Between nodes: all samples. take adds to what is there. -1: malformed. */
void durations_put(const struct durations *d, struct bytes *out);
int durations_take(struct durations *d, struct bytes_reader *in);

int durations_save(const struct durations *d, const char *path, struct prism_error *err);
/* No such file: an empty table. NULL with err (PRISM_EXIT_TRACE): the file is damaged. */
struct durations *durations_load(const char *path, struct prism_error *err);

#endif
