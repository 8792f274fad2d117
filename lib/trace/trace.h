/* trace.h - PrismTrace: a folder that holds the graph, the payloads, the timing and where it all came from.
 *
 *   trace.json           manifest: version, program, world, what is complete (written last, atomically)
 *   graph.bin            structure and works (lib/graph, docs/formats/prismtrace.md)
 *   payload-<node>.dat   payloads captured on that node: zstd frames, appended
 *   payload-<node>.idx   their index (written at the end, atomically)
 *   store.log            what each rank did to the c10d store (lib/c10d, docs/formats/store-log.md)
 *   pmix.log             what ranks put into PMIx, if any (docs/formats/pmix-log.md)
 *   network.json         network profile used (docs/formats/network-profile.md)
 *   durations.json       durations measured in calibration, if any (docs/formats/durations.md)
 *   folding.json, switching.json   what a report says of a capture later (docs/report.md)
 *   logs/                standard output and error of ranks in capture and calibration
 *
 * A trace without trace.json, or whose manifest says complete = false, is incomplete and refused by emulation.
 */
#ifndef PRISM_TRACE_TRACE_H
#define PRISM_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TRACE_VERSION 3 /* written; 1 and 2 are read too: without checksums, and 1 does not say what its payloads hold */

/* Limits of a manifest's numbers, so that a damaged one is no answer. */
#define TRACE_WORLD_MAX         1048576u /* as of graph.bin */
#define TRACE_GPUS_PER_NODE_MAX 100000u  /* as of prism synth */
#define TRACE_NODES_MAX         4096u    /* as of PRISM_NODES */

/* What payloads hold: the bytes of every part, those that control mode keeps (coll/synthetic.h), or there are none. In ascending
 * order of what is missing. Also what a user asks for. */
enum trace_payload {
    TRACE_PAYLOAD_UNSAID, /* in a manifest, of an earlier version: every part is there, in control mode synthetic; asked for: what there is */
    TRACE_PAYLOAD_FULL,
    TRACE_PAYLOAD_CONTROL,
    TRACE_PAYLOAD_NONE
};
/* "full", "control", "none"; NULL for UNSAID. */
const char *trace_payload_name(enum trace_payload p);
/* UNSAID for NULL and other text. */
enum trace_payload trace_payload_of(const char *name);

/* A file of the trace that trace.json vouches for. */
struct trace_file {
    char name[64];
    uint64_t bytes, sum; /* sum: xxHash64 of the contents */
};

struct trace_manifest {
    uint32_t version;
    uint32_t world, gpus_per_node;
    uint32_t nodes;      /* prismds that captured: payload-0 … payload-(nodes-1) */
    bool complete;       /* capture ended well */
    bool calibrated;
    uint32_t iterations; /* recorded */
    enum trace_payload payload;
    uint32_t *sandbox;   /* owned; sandbox set named at capture: payload sums are exact for it */
    uint32_t nsandbox;
    char *layout, *fold; /* owned; a folded capture: as the options were; else NULL. Not in traces of earlier versions */
    char **argv;         /* owned, NULL-terminated: the program */
    char **env;          /* owned, NULL-terminated: the environment differences that matter (PRISM_ and identity left out) */
    char *cwd;           /* owned */
    char *program_id;    /* owned: xxHash64 (hex) of argv and of the executable's contents: "of another program" */
    char *created;       /* owned: RFC 3339 */
    char *trace_id;      /* owned: random, 16 hex digits; names the capture */
    struct trace_file *files; /* owned; as read (none before version 3): writing takes what is in the folder */
    uint32_t nfiles;
};

void trace_manifest_clear(struct trace_manifest *m); /* frees what it owns; all zero afterwards */
/* version is written as TRACE_VERSION whatever m says; NULL strings and lists as empty ones. Last of all that a phase writes:
 * it takes the checksums of what lies in dir then. */
int trace_manifest_write(const char *dir, const struct trace_manifest *m, struct prism_error *err);
/* PRISM_EXIT_TRACE errors tell apart: no folder, no manifest, damaged, other version. */
int trace_manifest_read(const char *dir, struct trace_manifest *m, struct prism_error *err);
/* The same from memory; path is for messages only. */
int trace_manifest_parse(const char *path, const void *data, size_t len, struct trace_manifest *m,
                         struct prism_error *err);
/* Puts the checksum of a manifest's text into it, in place, where its digits stand as anything; false: they do not. */
bool trace_manifest_seal(char *text, size_t len);

/* Is the folder what its manifest says? Called by whoever opens a trace, before anything is said of it. Error
 * (PRISM_EXIT_TRACE): the graph is of another world, node size or number of iterations; a file that the manifest names is
 * missing, of another size or another checksum; one is there that it should name; more nodes have payloads. Before version 3
 * no files are named. */
#define TRACE_ITERATIONS_UNKNOWN UINT32_MAX
struct trace_graph { /* what graph.bin says */
    uint32_t world, gpus_per_node, iterations;
};
enum trace_check_how {
    TRACE_CHECK_ALL = 1,           /* also read logs of more than 1 MiB, which end with a checksum of their own */
    TRACE_CHECK_OTHER_NETWORK = 2, /* another profile was named: network.json is not read */
    TRACE_CHECK_CALIBRATES = 4,    /* durations.json will be replaced, network.json measured if it is not there */
    TRACE_CHECK_NO_DURATIONS = 8   /* durations.json is not read: one that is not of the trace may lie there */
};
int trace_check(const char *dir, const struct trace_manifest *m, const struct trace_graph *g, unsigned how,
                struct prism_error *err);
/* dir has a file of that name, which the manifest should name and does not: it is not of this trace. */
bool trace_has_stray(const char *dir, const struct trace_manifest *m, const char *name);
/* A new trace comes where another may be: removes what that had, but for network.json (a measured profile serves again), logs,
 * reports and trace.json, which says by then that the trace is incomplete. */
void trace_forget(const char *dir);

/* What calibration and emulation deliver: *payload as asked for, or, if that is UNSAID, as the trace has it. Error
 * (PRISM_EXIT_TRACE) if more is asked for than it has. */
int trace_payload_agree(const struct trace_manifest *m, const char *dir, enum trace_payload *payload, struct prism_error *err);
/* xxHash64 of argv and, if argv[0] is found (PATH), the file's bytes: 16 hex digits, malloc'ed. */
char *trace_program_id(char *const *argv);
/* Error (PRISM_EXIT_TRACE) unless the manifest is of this program and world, and complete. */
int trace_manifest_match(const struct trace_manifest *m, const char *dir, const char *program_id, uint32_t world,
                         struct prism_error *err);

#endif
