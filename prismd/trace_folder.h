/* trace_folder.h - what prismd reads from and writes into the trace folder by itself (others: network.h, pmix/pmix_trace.h,
 * switching/switching.h, folding/folding_spread.h, report/report.h). */
#ifndef PRISM_PRISMD_TRACE_FOLDER_H
#define PRISM_PRISMD_TRACE_FOLDER_H

#include <limits.h>

#include "prismd/daemon.h"
#include "trace/trace.h"

struct durations;

void path_in_trace(const struct daemon *d, const char *name, char path[PATH_MAX]);

/* d->graph from graph.bin; it must be of the run's world. */
int trace_folder_load_graph(struct daemon *d, struct prism_error *err);
/* The same, and the folder is what its manifest says (trace_check). */
int trace_folder_open(struct daemon *d, const struct trace_manifest *m, struct prism_error *err);
int trace_folder_write_graph(struct daemon *d, struct prism_error *err);

/* Coordinator: into and from d->store. */
int trace_folder_write_store(struct daemon *d, struct prism_error *err);
int trace_folder_replay_store(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err);

void trace_folder_forget_durations(const struct daemon *d);
int trace_folder_keep_durations(const struct daemon *d, const struct durations *all, struct prism_error *err);
/* NULL: damaged, which the phase that ran before has found. */
struct durations *trace_folder_load_durations(const struct daemon *d, struct prism_error *err);

/* Payloads of a capture that failed, maybe with a node that could not clean up any more. */
void trace_folder_remove_payloads(const struct daemon *d);

#endif
