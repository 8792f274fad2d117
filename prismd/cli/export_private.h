/* export_private.h - the forms of `prism export`. */
#ifndef PRISM_CLI_EXPORT_PRIVATE_H
#define PRISM_CLI_EXPORT_PRIVATE_H

#include <stdio.h>

#include "timeline_spans.h"

struct export_request {
    const struct graph *g;
    const struct coll_network *network;
    const struct durations *measured;
    const uint32_t *ranks; /* nranks of them */
    uint32_t nranks;
    bool whole;           /* everything recorded, set-up and teardown too */
    uint32_t first, last; /* else these iterations */
};

/* Nodes [*begin, *end) of the rank that were asked for. */
void export_range(const struct export_request *q, uint32_t rank, uint32_t *begin, uint32_t *end);

/* Name and bytes of a node: its first part's operation, "xN" when there are several; the kind of others. */
uint64_t export_describe(const struct graph_rank *rank, const struct graph_node *node, char *name, size_t len);

/* A line a node, as they become known: in order of nothing but each rank's own nodes. */
int export_csv(const struct export_request *q, FILE *out, struct prism_error *err);
/* Trace Event Format (JSON object form; docs/export.md), for ui.perfetto.dev and chrome://tracing. */
int export_perfetto(const struct export_request *q, FILE *out, struct prism_error *err);
/* Folder dir, made if need be: trace.RANK.et for each rank, and comm_groups.json (export_chakra.c, docs/export.md). */
int export_chakra(const struct export_request *q, const char *dir, struct prism_error *err);

#endif
