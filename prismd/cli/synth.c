/* synth.c - `prism synth`: a trace of a job that nobody ran. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "c10d/log.h"
#include "cli.h"
#include "common/file.h"
#include "graph/graph.h"
#include "paths.h"
#include "synth/synth.h"
#include "trace/trace.h"

#define SUFFIX ".conf"

enum { OUTPUT, ITERATIONS, LIST };

static const struct cli_option options[] = {
    [OUTPUT] = { "output", "DIR", "(-o) folder of the new trace" },
    [ITERATIONS] = { "iterations", "N", "iterations recorded (default the file's, else 1)" },
    [LIST] = { "list", NULL, "names of the presets" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism synth JOB -o DIR [options] [-- PROGRAM ARGUMENTS]",
    .about = "Make a calibrated trace from a description of model, layout and cluster: JOB is a file (docs/synth.md) or a\n"
             "preset. info, verify, predict and export work on it; emulation too, with the program named\n"
             "here: what it receives is zero.",
    .options = options,
};

static int find_job(const char *name, char *path, size_t len, struct prism_error *err)
{
    char folder[PATH_MAX];
    struct stat st;
    /* A trace may well have its preset's name: folders are no jobs. */
    if (stat(name, &st) == 0 && !S_ISDIR(st.st_mode)) {
        snprintf(path, len, "%s", name);
        return 0;
    }
    if (paths_presets(folder, sizeof(folder), err) != 0)
        return -1;
    if (snprintf(path, len, "%s/%s.conf", folder, name) < (int)len && !strchr(name, '/') && access(path, R_OK) == 0)
        return 0;
    return prism_error_set(err, PRISM_EXIT_USAGE, "%s: neither a file nor a preset; prism synth --list has these", name);
}

static int is_preset(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > strlen(SUFFIX) && strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) == 0;
}

static int list_presets(const char *command)
{
    struct prism_error err = { 0 };
    char folder[PATH_MAX];
    struct dirent **entries;
    if (paths_presets(folder, sizeof(folder), &err) != 0)
        return cli_fail_error(command, &err);
    int n = scandir(folder, &entries, is_preset, alphasort);
    for (int i = 0; i < n; i++) {
        printf("%.*s\n", (int)(strlen(entries[i]->d_name) - strlen(SUFFIX)), entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return 0;
}

static char *new_id(void)
{
    uint64_t number = 0;
    char *text;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)time(NULL);
    return asprintf(&text, "%016llx", (unsigned long long)number) < 0 ? NULL : text;
}

static char *now(void)
{
    char text[40];
    time_t seconds = time(NULL);
    struct tm utc;
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    return strdup(text);
}

static int write_manifest(const char *dir, const struct synth_job *job, char **program, struct prism_error *err)
{
    char *named[] = { (char *)"prism-synth", job->name, NULL }, *none[] = { NULL };
    uint32_t sandbox[] = { 0 };
    char **argv = program[0] ? program : named;
    struct trace_manifest m = {
        .world = synth_world(job), .gpus_per_node = job->gpus_per_node, .complete = true, .calibrated = true,
        .iterations = job->iterations, .payload = TRACE_PAYLOAD_NONE, .sandbox = sandbox, .nsandbox = 1, .argv = argv, .env = none,
        .cwd = getcwd(NULL, 0), .program_id = trace_program_id(argv), .created = now(), .trace_id = new_id(),
    };
    int rc = trace_manifest_write(dir, &m, err);
    free(m.cwd);
    free(m.program_id);
    free(m.created);
    free(m.trace_id);
    return rc;
}

static int write_file(const char *dir, const char *name, const struct bytes *data, struct prism_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return file_write_atomic(path, data->data, data->len, 0644, err);
}

static int write_trace(const char *dir, const struct synth_job *job, const struct graph *graph, char **program,
                       struct prism_error *err)
{
    char path[PATH_MAX];
    struct bytes data = { 0 };
    struct c10d_log *store = c10d_log_create();
    graph_write(graph, &data);
    int rc = file_make_dirs(dir, 0755, err) != 0;
    snprintf(path, sizeof(path), "%s/trace.json", dir);
    if (!rc && unlink(path) == 0) /* there was a trace here before; other files of the same names are not ours */
        trace_forget(dir);
    rc = rc || write_file(dir, "graph.bin", &data, err) != 0;
    bytes_clear(&data);
    c10d_log_encode(store, &data);
    rc = rc || write_file(dir, "store.log", &data, err) != 0;
    snprintf(path, sizeof(path), "%s/network.json", dir);
    if (job->has_network)
        rc = rc || coll_network_save(&job->network, path, err) != 0;
    else
        unlink(path); /* the same */
    rc = rc || write_manifest(dir, job, program, err) != 0;
    c10d_log_destroy(store);
    bytes_free(&data);
    return rc ? -1 : 0;
}

static int count_option(const char *value, uint32_t *count, struct prism_error *err)
{
    char *end;
    unsigned long n = value ? strtoul(value, &end, 10) : *count;
    if (value && (*end || n < 1 || n > 10000))
        return prism_error_set(err, PRISM_EXIT_USAGE, "--iterations=%s: a number from 1 to 10000 is allowed", value);
    *count = (uint32_t)n;
    return 0;
}

static int synth(const char *name, const char *const *values, char **program, struct prism_error *err)
{
    char path[PATH_MAX];
    struct synth_job job = { 0 };
    if (find_job(name, path, sizeof(path), err) != 0 || synth_read(path, &job, err) != 0)
        return -1;
    struct graph *graph = NULL;
    if (count_option(values[ITERATIONS], &job.iterations, err) == 0)
        graph = synth_build(&job, err);
    int rc = graph ? write_trace(values[OUTPUT], &job, graph, program, err) : -1;
    if (rc == 0)
        printf("%s: %u ranks, %u class%s of equal structure, %u communicators\n", values[OUTPUT], graph->world,
               graph->nclasses, graph->nclasses == 1 ? "" : "es", graph->ncomms);
    graph_destroy(graph);
    synth_clear(&job);
    return rc;
}

/* "-o DIR" and "-oDIR", up to the program's own arguments. */
static char **with_long_names(int argc, char **argv)
{
    char **out = calloc((size_t)argc + 1, sizeof(*out));
    if (!out)
        abort();
    bool ours = true;
    for (int i = 0; i < argc; i++) {
        out[i] = argv[i];
        ours = ours && strcmp(argv[i], "--") != 0;
        if (i && ours && strcmp(argv[i], "-o") == 0)
            out[i] = (char *)"--output";
        else if (i && ours && strncmp(argv[i], "-o", 2) == 0 && asprintf(&out[i], "--output=%s", argv[i] + 2) < 0)
            abort();
    }
    return out;
}

int cli_synth(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    char **named = with_long_names(argc, argv); /* lives as long as the process */
    int own = 0;
    while (own < argc && strcmp(named[own], "--") != 0)
        own++;
    int exit_code, first = cli_parse(own, named, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (values[LIST])
        return list_presets(argv[0]);
    if (own - first != 1 || !values[OUTPUT])
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one job and a folder: %s", usage.synopsis);
    struct prism_error err = { 0 };
    if (synth(named[first], values, named + (own < argc ? own + 1 : argc), &err) != 0)
        return cli_fail_error(argv[0], &err);
    return 0;
}
