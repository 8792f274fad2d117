/* acct.c - `prism acct`: emulated jobs as Slurm's database knows them, with the GPU-hours they took and those they stood for
 * (docs/formats/accounting.md). Asks sacct, so it needs no Slurm library and sees what the user may see.
 */
#include "acct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "command.h"

enum { JOB, START, ALL_USERS, JSON, STORE };

static const struct cli_option options[] = {
    [JOB] = { "job", "JOB", "(-j) this job, or several: 12,14_3" },
    [START] = { "start", "TIME", "jobs since then, as sacct takes it: 2026-01-31, now-7days (default: today's)" },
    [ALL_USERS] = { "all-users", NULL, "other users' jobs too, as far as Slurm shows them" },
    [JSON] = { "json", NULL, "print as JSON" },
    [STORE] = { "store", "JOB", "(prismd's own) store lines of standard input in the job's Comment" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism acct [-j JOB] [options]",
    .about = "Print emulated jobs from Slurm's accounting: the GPU-hours they took (allocated GPUs x elapsed time) and the ones\n"
             "of the jobs they stood for (licences prism_gpu x elapsed time, as sreport counts them), and what they showed.",
    .options = options,
};

static int ask_sacct(const char *const *values, struct bytes *out, struct prism_error *err)
{
    static const char delimiter[] = { '-', '-', 'd', 'e', 'l', 'i', 'm', 'i', 't', 'e', 'r', '=', ACCT_DELIMITER, 0 };
    const char *argv[16] = { "sacct", "--noheader", "--parsable", "--allocations", delimiter, ACCT_FORMAT };
    size_t n = 6;
    struct bytes why = { 0 };
    if (values[JOB])
        argv[n++] = "--jobs", argv[n++] = values[JOB];
    if (values[START])
        argv[n++] = "--starttime", argv[n++] = values[START];
    if (values[ALL_USERS])
        argv[n++] = "--allusers";
    int code = command_run(argv, 120, out, &why);
    if (code == 127)
        prism_error_set(err, PRISM_EXIT_SYSTEM, "sacct is not in PATH: this is no host of a Slurm cluster");
    else if (code != 0)
        prism_error_set(err, PRISM_EXIT_SYSTEM, "sacct: %.400s (is there a slurmdbd? prism doctor looks)", command_line(&why));
    bytes_free(&why);
    return code == 0 ? 0 : -1;
}

/* "-j 12" and "-j12" as sacct has it. */
static char **long_names(int argc, char **argv)
{
    char **out = calloc((size_t)argc + 1, sizeof(*out));
    for (int i = 0; out && i < argc; i++) {
        out[i] = argv[i];
        if (i && strcmp(argv[i], "-j") == 0)
            out[i] = (char *)"--job";
        else if (i && strncmp(argv[i], "-j", 2) == 0 && asprintf(&out[i], "--job=%s", argv[i] + 2) < 0)
            out[i] = argv[i];
    }
    return out;
}

int cli_acct(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    char **named = long_names(argc, argv);
    if (!named)
        return PRISM_EXIT_SYSTEM;
    int exit_code, first = cli_parse(argc, named, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (first < argc)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "takes no arguments, got '%s' (-j JOB names a job)", named[first]);
    if (values[STORE])
        return acct_store(values[STORE]);
    struct bytes out = { 0 };
    struct prism_error err = { 0 };
    if (ask_sacct(values, &out, &err) != 0)
        return cli_fail_error(argv[0], &err);
    if (values[JSON])
        exit_code = print_json(acct_json((char *)out.data));
    else
        acct_print(stdout, (char *)out.data);
    bytes_free(&out);
    return exit_code;
}
