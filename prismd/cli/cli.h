/* cli.h - what the subcommands of `prism` share: the command table, option tables, reading a trace, printing.
 *
 * A subcommand is one file with one function; it gets argv with its own name in argv[0] and returns the exit code
 * (0, or one of enum prism_exit). Results go to standard output, everything else to standard error.
 */
#ifndef PRISM_CLI_CLI_H
#define PRISM_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* --- 1. Subcommands (main.c holds the table) --- */

int cli_run(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_verify(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_synth(int argc, char **argv);
int cli_plot(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_acct(int argc, char **argv);

/* --- 2. Options (options.c) --- */

struct cli_option {
    const char *name;     /* long name without the dashes; NULL ends a table */
    const char *argument; /* what --help calls the value; NULL = a flag; a leading '[' = the value may be left out */
    const char *doc;
};

struct cli_usage {
    const char *synopsis; /* "prism info TRACE [options]" */
    const char *about;    /* one or more lines */
    const struct cli_option *options;
};

#define CLI_MAX_OPTIONS 32

/* Parse argv by the table. values[i] is set to the value of options[i] ("" for a flag or a value left out; points into
 * argv), else stays NULL. With in_order, parsing stops at the first argument that is no option. Returns the index of
 * the first operand (operands are moved behind the options otherwise), or -1: *exit_code is then what to leave with
 * (--help printed: 0; else PRISM_EXIT_USAGE with one line on standard error). */
int cli_parse(int argc, char **argv, const struct cli_usage *usage, const char **values, bool in_order,
              int *exit_code);

/* One line "prism <command>: text" on standard error; returns code. */
int cli_fail(const char *command, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int cli_fail_error(const char *command, const struct prism_error *err);

/* --- 3. Traces (load.c) --- */

struct graph;
struct trace_manifest;
struct trace_graph;

/* Both owned by the caller (graph_destroy, trace_manifest_clear). -1 with err: PRISM_EXIT_TRACE; also when the folder is not what
 * its manifest says (trace_check). network: the option's value or NULL, as below: with it the trace's own is not looked at, and
 * a durations.json that is not of the trace is ignored, which is said on standard error. */
int cli_load_trace(const char *dir, const char *network, struct trace_manifest *manifest, struct graph **graph,
                   struct prism_error *err);
/* That check alone. */
int cli_check_trace(const char *dir, const char *network, const struct trace_manifest *manifest, const struct trace_graph *graph,
                    struct prism_error *err);
struct trace_graph cli_graph_facts(const struct graph *g);

/* What calibration measured in place of the profile (prismd/predict/durations.h; durations_destroy). None where a network was
 * named for this command (file): the question is then what that network would do. */
struct durations;
int cli_load_durations(const char *dir, const char *file, struct durations **measured, struct prism_error *err);

/* The profile of durations: file if given, else $PRISM_NETWORK, else the trace's network.json, else built-in values;
 * *source says which (malloc'ed). -1 with err. Free with coll_network_clear. */
struct coll_network;
int cli_load_network(const char *dir, const char *file, struct coll_network *network, char **source,
                     struct prism_error *err);

/* --- 4. Printing (format.c) --- */

/* "1.50 GiB", "312 us", …; returns buf. */
char *format_bytes(char *buf, size_t len, double bytes);
char *format_seconds(char *buf, size_t len, double seconds);
/* "0,17,4096-4099" from ascending numbers; malloc'ed. */
char *format_ranks(const uint32_t *ranks, size_t n);
double median(const double *values, size_t n); /* NAN when n is 0 */
/* Dump to standard output with a new line; the reference is taken over. Returns 0, or PRISM_EXIT_SYSTEM. */
int print_json(json_t *json);

#endif
