/* run.c - `prism run`: the options of srun without their "prism-", checked, put into PRISM_* variables; then this process
 * becomes prismd. The table of options is the Slurm plugins' own (spank/options.h). */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "paths.h"
#include "spank/client.h"
#include "spank/config.h"
#include "spank/options.h"

#define PREFIX "prism-"
#define REPORT OPTION_COUNT /* the one option that srun does not have */

_Static_assert(OPTION_COUNT + 2 <= CLI_MAX_OPTIONS, "raise CLI_MAX_OPTIONS");

static void make_table(struct cli_option table[OPTION_COUNT + 2])
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];
        table[i] = (struct cli_option){ row->name + strlen(PREFIX), row->argument, row->doc };
    }
    table[OPTION_EMULATE].argument = "N";
    table[OPTION_EMULATE].doc = "emulate a job of N ranks";
    table[OPTION_TRACE].doc = "folder of the trace (default ./prism-trace/PROGRAM)";
    table[OPTION_GPUS_PER_NODE].doc = "GPUs a node of the emulated cluster (default 8)";
    table[REPORT] = (struct cli_option){ "report", "FILE", "write the report there too (always: TRACE/report.json)" };
    table[REPORT + 1] = (struct cli_option){ 0 };
}

/* Messages of the shared table speak of srun's names. */
static void rename_options(struct prism_error *err)
{
    for (char *at = err->text; (at = strstr(at, "--" PREFIX));)
        memmove(at + 2, at + 2 + strlen(PREFIX), strlen(at + 2 + strlen(PREFIX)) + 1);
}

static int take_options(struct options *o, const char *const *values, struct prism_error *err)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        bool flag = option_table[i].takes == OPTION_FLAG;
        if (values[i] && options_set(o, (enum option_id)i, flag ? NULL : values[i], OPTION_FROM_COMMAND_LINE, err) != 0)
            return -1;
    }
    return options_read_environment(o, err) || config_read(o, NULL, err) ? -1 : 0;
}

static int check_world(const struct options *o, struct prism_error *err)
{
    uint32_t world = options_number(o, OPTION_EMULATE, 0), per_node = options_number(o, OPTION_GPUS_PER_NODE, 8);
    if (world == 0)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--emulate=N: say how many ranks the job has, for example "
                               "--emulate=1024");
    if (world > per_node && world % per_node != 0)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--emulate=%u is no multiple of --gpus-per-node=%u: a job of "
                               "several nodes uses whole nodes", world, per_node);
    const char *network = o->text[OPTION_NETWORK];
    if (network && access(network, R_OK) != 0)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--network=%s: %s; prism doctor --measure makes a profile", network,
                               strerror(errno));
    return options_check(o, world, err);
}

static int check_program(const char *name, struct prism_error *err)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    if (strchr(name, '/')) {
        if (access(name, X_OK) == 0)
            return 0;
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s: %s", name, strerror(errno));
    }
    for (size_t len; path; path = path[len] ? path + len + 1 : NULL) {
        len = strcspn(path, ":");
        snprintf(candidate, sizeof(candidate), "%.*s%s%s", (int)len, path, len ? "/" : "", name);
        if (access(candidate, X_OK) == 0)
            return 0;
    }
    return prism_error_set(err, PRISM_EXIT_USAGE, "%s: no such program in PATH", name);
}

static int set_path(const char *variable, const char *path, struct prism_error *err)
{
    char *absolute = client_absolute(path);
    if (!absolute)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "the working directory is gone");
    setenv(variable, absolute, 1);
    free(absolute);
    return 0;
}

static int export(const struct options *o, const char *report, const char *program, struct prism_error *err)
{
    char trace[PATH_MAX], library[PATH_MAX];
    const char *slash = strrchr(program, '/');
    snprintf(trace, sizeof(trace), "prism-trace/%s", slash ? slash + 1 : program);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (o->text[i])
            setenv(option_table[i].variable, o->text[i], 1);
    if (set_path("PRISM_TRACE", o->text[OPTION_TRACE] ? o->text[OPTION_TRACE] : trace, err) != 0)
        return -1;
    if (o->text[OPTION_NETWORK] && set_path("PRISM_NETWORK", o->text[OPTION_NETWORK], err) != 0)
        return -1;
    if (report && set_path("PRISM_REPORT", report, err) != 0)
        return -1;
    if (paths_library(library, sizeof(library), err) != 0)
        return -1;
    return set_path("PRISM_LIBRARY", library, err);
}

/* Everything up to the exec. */
static int prepare(const char *const *values, char **program, char *daemon, size_t len, struct prism_error *err)
{
    struct options o = { 0 };
    int failed = take_options(&o, values, err) != 0 || check_world(&o, err) != 0 ||
                 check_program(program[0], err) != 0 || export(&o, values[REPORT], program[0], err) != 0 ||
                 paths_daemon(daemon, len, err) != 0;
    options_clear(&o);
    rename_options(err);
    return failed ? -1 : 0;
}

int cli_run(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    struct cli_option table[OPTION_COUNT + 2];
    make_table(table);
    const struct cli_usage usage = {
        .synopsis = "prism run --emulate=N [options] [--] PROGRAM [arguments]",
        .about = "Run PROGRAM as a job of N ranks of which only the sandbox ranks run for real: what the trace lacks is\n"
                 "captured and calibrated first. Every option has a variable, PRISM_ and the name in capitals.",
        .options = table,
    };
    int exit_code, first = cli_parse(argc, argv, &usage, values, true, &exit_code);
    if (first < 0)
        return exit_code;
    if (first >= argc)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name the program to run: %s", usage.synopsis);
    struct prism_error err = { 0 };
    char daemon[PATH_MAX];
    if (prepare(values, argv + first, daemon, sizeof(daemon), &err) != 0)
        return cli_fail_error(argv[0], &err);
    argv[first - 1] = daemon; /* argv[0] is the subcommand, so there is always one before */
    execv(daemon, argv + first - 1);
    return cli_fail(argv[0], PRISM_EXIT_SYSTEM, "%s: %s", daemon, strerror(errno));
}
