/* report.c - `prism report`: what prismd left in report.json, for people or as JSON. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "report_text.h"

enum { JSON, LOSSES_FROM };

static const struct cli_option options[] = {
    [JSON] = { "json", NULL, "print the report as JSON" },
    [LOSSES_FROM] = { "losses-from", "FILE", "take losses from the program's output (- = standard input)" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism report [TRACE|FILE] [options]",
    .about = "Print the report of the last run with this trace (TRACE/report.json; default: the newest folder of\n"
             "./prism-trace). docs/report.md explains every key.",
    .options = options,
};

/* The newest of dir/<any>/report.json; -1 when there is none. */
static int find_newest(const char *dir, char *out, size_t len)
{
    DIR *d = opendir(dir);
    struct timespec newest = { 0, 0 };
    int found = -1;
    struct dirent *entry;
    while (d && (entry = readdir(d))) {
        char path[4096];
        struct stat st;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s/report.json", dir, entry->d_name);
        if (stat(path, &st) != 0)
            continue;
        if (found == 0 && (st.st_mtim.tv_sec < newest.tv_sec || (st.st_mtim.tv_sec == newest.tv_sec &&
                                                                 st.st_mtim.tv_nsec <= newest.tv_nsec)))
            continue;
        newest = st.st_mtim;
        snprintf(out, len, "%s", path);
        found = 0;
    }
    if (d)
        closedir(d);
    return found;
}

static int locate(const char *operand, char *out, size_t len)
{
    struct stat st;
    if (!operand)
        return find_newest("prism-trace", out, len);
    if (stat(operand, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(out, len, "%s/report.json", operand);
    else
        snprintf(out, len, "%s", operand);
    return 0;
}

int cli_report(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (argc - first > 1)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "one trace or report at a time, got '%s' too", argv[first + 1]);
    char path[4096];
    if (locate(argv[first], path, sizeof(path)) != 0)
        return cli_fail(argv[0], PRISM_EXIT_TRACE, "no report below ./prism-trace; name a trace or a report.json");
    json_error_t at;
    json_t *report = json_load_file(path, 0, &at);
    if (!json_is_object(report)) {
        json_decref(report);
        return cli_fail(argv[0], PRISM_EXIT_TRACE, "%s: %s (line %d); a report is written when a run ends", path,
                        at.text[0] ? at.text : "not a report", at.line);
    }
    struct prism_error err = { 0 };
    if (values[LOSSES_FROM] && report_add_losses(report, values[LOSSES_FROM], &err) < 0) {
        json_decref(report);
        return cli_fail_error(argv[0], &err);
    }
    if (values[JSON])
        return print_json(report);
    report_print(stdout, report);
    json_decref(report);
    return 0;
}
