#include "prismd/conf.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/fold.h"
#include "prismd/devices.h"
#include "prismd/folding/folding.h"
#include "spank/parse.h"

#define WORLD_MAX 10000000u

static const char *get(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static int get_number(const char *name, uint64_t least, uint64_t most, uint64_t fallback, uint64_t *out,
                      struct prism_error *err)
{
    const char *v = get(name);
    *out = fallback;
    if (!v)
        return 0;
    struct prism_error why = {0};
    if (parse_number(v, least, most, out, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s=%s: %s", name, v, why.text);
    return 0;
}

static int get_choice(const char *name, const char *const *choices, int *out, struct prism_error *err)
{
    const char *v = get(name);
    struct prism_error why = {0};
    size_t index = 0;
    if (v && parse_choice(v, choices, &index, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s=%s: %s", name, v, why.text);
    *out = (int)index;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int read_sandbox(struct conf *c, struct prism_error *err)
{
    struct parse_ranks ranks;
    struct prism_error why = {0};
    const char *v = get("PRISM_SANDBOX");
    if (parse_ranks(v ? v : "0", &ranks, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_SANDBOX: %s", why.text);
    if (ranks.highest >= c->world) {
        prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_SANDBOX=%s: rank %u is outside the world of %u (0 to %u)", v,
                        ranks.highest, c->world, c->world - 1);
        parse_ranks_clear(&ranks);
        return -1;
    }
    c->sandbox = malloc(ranks.count * sizeof *c->sandbox);
    if (!c->sandbox)
        abort();
    for (size_t i = 0; i < ranks.nranges; i++)
        for (uint32_t r = ranks.ranges[i].first; r <= ranks.ranges[i].last; r++)
            c->sandbox[c->nsandbox++] = r;
    parse_ranks_clear(&ranks);
    return 0;
}

static int read_slices(struct conf *c, struct prism_error *err)
{
    const char *v = get("PRISM_SLICES");
    uint64_t n = 0;
    if (v && !strcmp(v, "all"))
        c->slices = UINT32_MAX;
    else if (v && strcmp(v, "auto") && get_number("PRISM_SLICES", 1, WORLD_MAX, 0, &n, err))
        return -1;
    else
        c->slices = (uint32_t)n;
    return 0;
}

/* The file that execvp would take. */
static char *find_executable(const char *name)
{
    if (strchr(name, '/'))
        return strdup(name);
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/bin:/bin"; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
        char full[PATH_MAX];
        int len = (int)strcspn(p, ":");
        snprintf(full, sizeof full, "%.*s%s%s", len, p, len ? "/" : "", name);
        if (!access(full, X_OK))
            return strdup(full);
    }
    return strdup(name);
}

static char *absolute(const char *path)
{
    if (*path == '/')
        return strdup(path);
    char cwd[PATH_MAX], full[2 * PATH_MAX];
    if (!getcwd(cwd, sizeof cwd))
        return strdup(path);
    snprintf(full, sizeof full, "%s/%s", cwd, path);
    return strdup(full);
}

static char *default_trace(const struct conf *c)
{
    const char *name = strrchr(c->argv[0], '/');
    char path[PATH_MAX];
    snprintf(path, sizeof path, "prism-trace/%s", name ? name + 1 : c->argv[0]);
    return absolute(path);
}

static char *default_library(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 32);
    if (n <= 0)
        return NULL;
    self[n] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
    }
    strcat(self, "/lib/libprism.so");
    return strdup(self);
}

static int read_numbers(struct conf *c, struct prism_error *err)
{
    uint64_t world, gpn, assistants, runnable, staging, nodes, node, link_seconds, iterations, prefetch, kept, pool, reserve, queues,
        tasks, cpus, count;
    if (get_number("PRISM_EMULATE", 1, WORLD_MAX, 0, &world, err) ||
        get_number("PRISM_GPUS_PER_NODE", 1, 1024, 8, &gpn, err) ||
        get_number("PRISM_ASSISTANTS", 0, 1024, UINT64_MAX, &assistants, err) ||
        get_number("PRISM_RUNNABLE", 1, 1000000, 32, &runnable, err) ||
        get_number("PRISM_QUEUES", 0, 32, 0, &queues, err) ||
        get_number("PRISM_STAGING", 1 << 20, 1ull << 40, 0, &staging, err) ||
        get_number("PRISM_NODES", 1, 4096, 1, &nodes, err) || get_number("PRISM_NODE_ID", 0, nodes - 1, 0, &node, err) ||
        get_number("PRISM_PREFETCH", 0, 1ull << 40, 1u << 30, &prefetch, err) ||
        get_number("PRISM_ASSISTANT_MEMORY", 0, 1ull << 50, 0, &kept, err) || /* for the assistants, which read it themselves */
        get_number("PRISM_DEVICE_MEMORY", 0, 1ull << 50, 0, &c->device_memory, err) ||
        get_number("PRISM_CONTEXT_BYTES", 0, 1ull << 50, UINT64_MAX, &c->context_bytes, err) ||
        get_number("PRISM_EVICTION_SEED", 0, UINT64_MAX, 0, &c->eviction_seed, err) ||
        get_number("PRISM_HOST_POOL", 0, 1ull << 50, 0, &pool, err) || /* for the mover, which reads these two itself */
        get_number("PRISM_HOST_RESERVE", 0, 1ull << 50, 0, &reserve, err) ||
        get_number("PRISM_TASKS", 1, WORLD_MAX, UINT64_MAX, &tasks, err) ||
        get_number("PRISM_CPUS_PER_TASK", 0, WORLD_MAX, 0, &cpus, err) ||
        get_number("PRISM_NODE_COUNT", 1, WORLD_MAX, 1, &count, err) ||
        get_number("PRISM_ITERATIONS", 0, 1000000, 0, &iterations, err) ||
        get_number("PRISM_LINK_SECONDS", 1, 86400, 0, &link_seconds, err))
        return -1;
    if (!world)
        return prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_EMULATE is not set: give the world with --prism-emulate=N");
    c->world = (uint32_t)world;
    c->gpus_per_node = (uint32_t)gpn;
    c->assistants = assistants == UINT64_MAX ? -1 : (int)assistants;
    c->tasks = tasks < world ? (uint32_t)tasks : c->world;
    c->cpus_per_task = (uint32_t)cpus;
    c->node_count = (uint32_t)count;
    c->runnable = (uint32_t)runnable;
    c->queues = (uint32_t)queues;
    c->staging = staging;
    c->nodes = (uint32_t)nodes;
    c->node = (uint32_t)node;
    c->prefetch = prefetch;
    c->iterations = (uint32_t)iterations;
    c->link_seconds = (uint32_t)link_seconds;
    return 0;
}

static int read_choices(struct conf *c, struct prism_error *err)
{
    static const char *const phases[] = {"auto", "capture", "calibrate", "emulate", NULL};
    static const char *const payloads[] = {"full", "control", "none", NULL};
    static const char *const switchings[] = {"auto", "0", "1", NULL};
    static const char *const divergences[] = {"stop", "warn", NULL};
    int phase, payload, divergence, switching;
    if (get_choice("PRISM_PHASE", phases, &phase, err) || get_choice("PRISM_PAYLOAD", payloads, &payload, err) ||
        get_choice("PRISM_ON_DIVERGENCE", divergences, &divergence, err) ||
        get_choice("PRISM_SWITCHING", switchings, &switching, err))
        return -1;
    c->phase = (enum conf_phase)phase;
    c->iteration_range = get("PRISM_ITERATION_RANGE");
    c->payload = get("PRISM_PAYLOAD") ? (enum trace_payload)(TRACE_PAYLOAD_FULL + payload) : TRACE_PAYLOAD_UNSAID;
    c->switching = (enum conf_switching)switching;
    c->on_divergence = (enum conf_divergence)divergence;
    return 0;
}

static int read_fold(struct conf *c, struct prism_error *err)
{
    const char *layout = get("PRISM_LAYOUT"), *fold = get("PRISM_FOLD");
    if (fold && !strcmp(fold, "0"))
        fold = NULL;
    if (fold && !layout)
        return prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_FOLD=%s needs PRISM_LAYOUT, which says what '%s' is", fold, fold);
    c->layout = layout ? strdup(layout) : NULL;
    c->fold_names = fold ? strdup(fold) : NULL;
    if (!fold)
        return 0;
    c->fold = folding_make(layout, fold, c->world, c->sandbox, c->nsandbox, err);
    c->fold_nodes = c->fold ? folding_place(c) : NULL;
    return c->fold ? 0 : -1;
}

int conf_read(struct conf *c, char **argv, struct prism_error *err)
{
    *c = (struct conf){.argv = argv};
    if (read_numbers(c, err) || read_choices(c, err) || read_sandbox(c, err) || read_fold(c, err) || read_slices(c, err) ||
        devices_find(&c->devices, &c->ndevices, err))
        return -1;
    c->trace = get("PRISM_TRACE") ? absolute(get("PRISM_TRACE")) : default_trace(c);
    c->network = get("PRISM_NETWORK") ? absolute(get("PRISM_NETWORK")) : NULL;
    c->report = get("PRISM_REPORT") ? absolute(get("PRISM_REPORT")) : NULL;
    c->library = get("PRISM_LIBRARY") ? strdup(get("PRISM_LIBRARY")) : default_library();
    c->scratch = get("PRISM_SCRATCH") && strcmp(get("PRISM_SCRATCH"), "0");
    c->is_step = get("PRISM_STEP_ID");
    c->trace_is_default = get("PRISM_TRACE_DEFAULT");
    c->node_base = get("PRISM_NODE_BASE") ? strdup(get("PRISM_NODE_BASE")) : NULL;
    c->step = strdup(get("PRISM_STEP_ID") ? get("PRISM_STEP_ID") : "run");
    c->executable = get("PRISM_PROGRAM_EXE") ? strdup(get("PRISM_PROGRAM_EXE")) : find_executable(argv[0]);
    if (!c->library || access(c->library, R_OK))
        return prism_error_set(err, PRISM_EXIT_USAGE, "cannot read the preload library %s: set PRISM_LIBRARY to libprism.so",
                               c->library ? c->library : "(unknown)");
    return 0;
}

void conf_clear(struct conf *c)
{
    free(c->sandbox);
    free(c->layout);
    free(c->fold_names);
    fold_destroy(c->fold);
    free(c->fold_nodes);
    free(c->trace);
    free(c->network);
    free(c->report);
    free(c->library);
    free(c->step);
    free(c->node_base);
    free(c->executable);
    for (uint32_t i = 0; i < c->ndevices; i++)
        free(c->devices[i]);
    free(c->devices);
    *c = (struct conf){0};
}

bool conf_is_sandbox(const struct conf *c, uint32_t rank)
{
    return bsearch(&rank, c->sandbox, c->nsandbox, sizeof rank, by_value) != NULL;
}
