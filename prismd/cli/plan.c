/* plan.c - `prism plan`: what a request will get and how long it will take, before it is submitted. The shape is worked out by the
 * code that runs in srun and sbatch (spank/shape.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/duration.h"
#include "graph/graph.h"
#include "plan_times.h"
#include "prismd/predict/durations.h"
#include "prismd/folding/folding.h"
#include "prismd/predict/predict.h"
#include "prismd/replay/slices.h"
#include "spank/config.h"
#include "spank/options.h"
#include "spank/shape.h"
#include "trace/trace.h"

#define PREFIX "prism-"
#define RUNNABLE 32 /* prismd/conf.h */

enum { NODES = OPTION_COUNT, NTASKS, NTASKS_PER_NODE, CPUS_PER_TASK, DEVICES_PER_NODE, ITERATION_SECONDS, STARTUP_SECONDS, JSON, END };

_Static_assert(END < CLI_MAX_OPTIONS, "raise CLI_MAX_OPTIONS");

static const struct cli_option own[] = {
    { "nodes", "N", "nodes of the full job, as srun's -N" },
    { "ntasks", "N", "tasks of the full job, as srun's -n" },
    { "ntasks-per-node", "N", "as srun's" },
    { "cpus-per-task", "N", "as srun's" },
    { "devices-per-node", "D", "GPUs of a node of the partition (default those of the request, else 8)" },
    { "iteration-seconds", "T", "of the full job (default: predicted from --trace, else 10)" },
    { "startup-seconds", "S", "of a process until its first iteration (default 60)" },
    { "json", NULL, "print as JSON" },
};

static void make_table(struct cli_option table[END + 1])
{
    for (int i = 0; i < OPTION_COUNT; i++)
        table[i] = (struct cli_option){ option_table[i].name + strlen(PREFIX), option_table[i].argument, option_table[i].doc };
    memcpy(table + OPTION_COUNT, own, sizeof(own));
    table[END] = (struct cli_option){ 0 };
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
        const char *text = values[i] && option_table[i].takes != OPTION_REQUIRED && !*values[i] ? NULL : values[i];
        if (values[i] && options_set(o, (enum option_id)i, text, OPTION_FROM_COMMAND_LINE, err) != 0)
            return -1;
    }
    if (options_read_environment(o, err) || config_read(o, NULL, err))
        return -1;
    return o->text[OPTION_EMULATE] ? 0 : options_set(o, OPTION_EMULATE, NULL, OPTION_FROM_COMMAND_LINE, err);
}

static int take_number(const char *const *values, int id, uint32_t *to, struct prism_error *err)
{
    uint64_t n;
    struct prism_error why = { 0 };
    if (!values[id])
        return 0;
    if (parse_number(values[id], 1, PARSE_WORLD_MAX, &n, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, "--%s=%s: %s", own[id - OPTION_COUNT].name, values[id], why.text);
    *to = (uint32_t)n;
    return 0;
}

static int take_seconds(const char *const *values, int id, double *to, struct prism_error *err)
{
    char *end;
    if (!values[id])
        return 0;
    *to = strtod(values[id], &end);
    if (end == values[id] || *end || !(*to >= 0 && *to < 1e7))
        return prism_error_set(err, PRISM_EXIT_USAGE, "--%s=%s: seconds are wanted", own[id - OPTION_COUNT].name, values[id]);
    return 0;
}

static int take_request(const char *const *values, const struct options *o, struct shape_request *r, struct prism_error *err)
{
    if (take_number(values, NODES, &r->nodes, err) || take_number(values, NTASKS, &r->tasks, err) ||
        take_number(values, NTASKS_PER_NODE, &r->tasks_per_node, err) ||
        take_number(values, CPUS_PER_TASK, &r->cpus_per_task, err) ||
        take_number(values, DEVICES_PER_NODE, &r->most_devices_per_node, err))
        return -1;
    r->gpus_per_node = options_number(o, OPTION_GPUS_PER_NODE, 0);
    return 0;
}

/* Stages of the layout: the classes that are sure to differ. */
static uint32_t stages(const struct options *o)
{
    struct parse_layout layout;
    const char *text = o->text[OPTION_LAYOUT];
    if (text && !parse_layout(text, &layout, NULL))
        for (size_t i = 0; i < layout.ndimensions; i++)
            if (!strcmp(layout.dimension[i].name, "pp"))
                return layout.dimension[i].size;
    return 1;
}

struct plan {
    struct shape shape;
    struct plan_model model;
    struct plan_times times;
    bool captured, calibrated;
    const char *source; /* of the iteration's length */
};

/* The median iteration after the first, of everyone. */
static double predicted_seconds(const struct graph *g, const struct graph_run *run)
{
    uint32_t n = g->ranks[0].niterations;
    double *seconds = calloc(n + 1u, sizeof(*seconds));
    int64_t before = 0;
    if (!seconds)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        int64_t last = before;
        for (uint32_t r = 0; r < g->world; r++) {
            int64_t end = graph_run_iteration_end(run, r, i);
            last = end > last ? end : last;
        }
        seconds[i] = (double)(last - before) * 1e-9;
        before = last;
    }
    double result = n > 1 ? median(seconds + 1, n - 1) : n ? seconds[0] : 0;
    free(seconds);
    return result;
}

static int predict_seconds(const char *dir, const struct options *o, const struct graph *g, double *seconds, struct prism_error *err)
{
    struct coll_network network = { 0 };
    struct durations *measured = NULL;
    struct graph_run *run = NULL;
    char *source = NULL;
    if (cli_load_network(dir, o->text[OPTION_NETWORK], &network, &source, err) == 0 &&
        cli_load_durations(dir, o->text[OPTION_NETWORK], &measured, err) == 0)
        run = predict_run(g, &network, measured, NULL, NULL, err);
    if (run)
        *seconds = predicted_seconds(g, run);
    graph_run_destroy(run);
    durations_destroy(measured);
    coll_network_clear(&network);
    free(source);
    return run ? 0 : -1;
}

/* Folded as the options, or the trace's manifest, say; NULL: not. The sandbox is the option's, and the trace's its own. */
static struct fold *folded(const struct options *o, const struct trace_manifest *m, uint32_t world)
{
    struct parse_ranks ranks;
    const char *sandbox = o->text[OPTION_SANDBOX];
    struct fold *f = NULL;
    if (m)
        return m->fold ? folding_make(m->layout, m->fold, m->world, m->sandbox, m->nsandbox, NULL) : NULL;
    if (!o->text[OPTION_FOLD] || !o->text[OPTION_LAYOUT] || parse_ranks(sandbox ? sandbox : "0", &ranks, NULL))
        return NULL;
    uint32_t *list = malloc((ranks.count + 1) * sizeof(*list)), n = 0;
    if (!list)
        abort();
    for (size_t i = 0; i < ranks.nranges; i++)
        for (uint32_t r = ranks.ranges[i].first; r <= ranks.ranges[i].last; r++)
            list[n++] = r;
    f = folding_make(o->text[OPTION_LAYOUT], o->text[OPTION_FOLD], world, list, n, NULL);
    parse_ranks_clear(&ranks);
    free(list);
    return f;
}

static uint32_t count_slices(const struct options *o, const struct graph *g, const struct fold *fold, uint32_t devices)
{
    struct slices s = { 0 };
    struct parse_ranks ranks;
    const char *slices = o->text[OPTION_SLICES], *sandbox = o->text[OPTION_SANDBOX];
    uint32_t *always, n = 0;
    if (parse_ranks(sandbox ? sandbox : "0", &ranks, NULL))
        return 0;
    always = malloc((ranks.count + 1) * sizeof(*always));
    if (!always)
        abort();
    for (size_t i = 0; i < ranks.nranges; i++)
        for (uint32_t r = ranks.ranges[i].first; r <= ranks.ranges[i].last; r++)
            always[n++] = r;
    slices_plan(&s, g, fold, devices, slices && !strcmp(slices, "all") ? UINT32_MAX : options_number(o, OPTION_SLICES, 0), always, n);
    n = s.n;
    slices_clear(&s);
    parse_ranks_clear(&ranks);
    free(always);
    return n;
}

/* What a trace tells: recorded iterations, classes, seconds; what need not be done again. */
static int ask_trace(const char *dir, const struct options *o, struct plan *p, bool seconds_given, struct prism_error *err)
{
    struct trace_manifest manifest = { 0 };
    struct graph *graph;
    enum trace_payload payload = trace_payload_of(o->text[OPTION_PAYLOAD]);
    if (cli_load_trace(dir, o->text[OPTION_NETWORK], &manifest, &graph, err) != 0)
        return -1;
    int rc = 0;
    if (graph->world != p->shape.world) {
        rc = prism_error_set(err, PRISM_EXIT_TRACE, "%s is of a world of %u, the request of %u", dir, graph->world, p->shape.world);
    } else if (trace_payload_agree(&manifest, dir, &payload, err)) {
        rc = -1;
    } else {
        p->captured = manifest.complete;
        p->calibrated = manifest.calibrated;
        p->model.classes = graph->nclasses;
        struct fold *fold = folded(o, &manifest, p->shape.world);
        p->model.slices = count_slices(o, graph, fold, p->model.devices);
        p->model.captured = fold ? fold->nlive : p->shape.world;
        fold_destroy(fold);
        if (!o->text[OPTION_ITERATIONS])
            p->model.iterations = manifest.iterations ? manifest.iterations : 1;
        if (!seconds_given && p->calibrated) {
            rc = predict_seconds(dir, o, graph, &p->model.iteration_seconds, err);
            p->source = "predicted from the trace";
        }
    }
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return rc;
}

static int make_plan(const char *const *values, struct options *o, struct plan *p, struct prism_error *err)
{
    struct shape_request request = { 0 };
    if (take_options(o, values, err) || take_request(values, o, &request, err) || shape_plan(&request, o, &p->shape, err))
        return -1;
    const struct shape *s = &p->shape;
    struct fold *fold = folded(o, NULL, s->world);
    uint32_t captured = fold ? fold->nlive : s->world;
    fold_destroy(fold);
    bool given = values[ITERATION_SECONDS];
    p->source = given ? "given" : "assumed";
    p->model = (struct plan_model){ .captured = captured, .world = s->world, .sandbox_ranks = s->sandbox_ranks,
                                    .devices = s->physical_nodes * s->devices_per_node, .nodes = s->physical_nodes,
                                    .runnable = RUNNABLE, .classes = stages(o),
                                    .iterations = options_number(o, OPTION_ITERATIONS, 5),
                                    .more_iterations = o->text[OPTION_ITERATIONS] ? PLAN_MORE_ITERATIONS : 0, .iteration_seconds = 10,
                                    .startup_seconds = 60 };
    if (take_seconds(values, ITERATION_SECONDS, &p->model.iteration_seconds, err) ||
        take_seconds(values, STARTUP_SECONDS, &p->model.startup_seconds, err) ||
        (o->text[OPTION_TRACE] && ask_trace(o->text[OPTION_TRACE], o, p, given, err)))
        return -1;
    p->times = plan_times(&p->model);
    if (p->captured)
        p->times.capture = 0;
    if (p->calibrated)
        p->times.calibrate = 0;
    return 0;
}

static double total(const struct plan *p)
{
    return p->times.capture + p->times.calibrate + p->times.emulate;
}

static int put_json(const struct plan *p)
{
    const struct shape *s = &p->shape;
    return print_json(json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:{s:f, s:f, s:f, s:f}, s:{s:s, s:f, s:i, s:f, s:i, s:i, s:i}}", "world",
        s->world, "nodes", s->nodes, "gpus_per_node", s->gpus_per_node, "tasks", s->tasks, "sandbox_ranks", s->sandbox_ranks,
        "assistants", s->devices - s->sandbox_ranks, "devices", p->model.devices, "physical_nodes", s->physical_nodes,
        "devices_per_node", s->devices_per_node, "minutes", "capture", p->times.capture / 60, "calibrate",
        p->times.calibrate / 60, "emulate", p->times.emulate / 60, "total", total(p) / 60, "model", "iteration", p->source,
        "iteration_seconds", p->model.iteration_seconds, "iterations", p->model.iterations, "startup_seconds",
        p->model.startup_seconds, "captured_ranks", p->model.captured, "classes", p->model.classes, "slices", p->times.slices));
}

static int put_text(const struct plan *p)
{
    const struct shape *s = &p->shape;
    printf("emulated   %u ranks, %u nodes x %u GPUs\n", s->world, s->nodes, s->gpus_per_node);
    printf("allocated  %u node%s x %u GPUs: %u for sandbox ranks, %u for assistants\n", s->physical_nodes,
           s->physical_nodes == 1 ? "" : "s", s->devices_per_node, s->sandbox_ranks, s->devices - s->sandbox_ranks);
    if (p->model.captured < s->world)
        printf("folded     %u ranks run in capture\n", p->model.captured);
    printf("minutes    capture %.1f%s, calibrate %.1f%s, emulate %.1f: %.1f in all\n", p->times.capture / 60,
           p->captured ? " (is in the trace)" : "", p->times.calibrate / 60, p->calibrated ? " (is in the trace)" : "",
           p->times.emulate / 60, total(p) / 60);
    printf("model      %u iterations of %.3g s (%s), start-up %.3g s, %u slices for %u classes of ranks\n", p->model.iterations,
           p->model.iteration_seconds, p->source, p->model.startup_seconds, p->times.slices, p->model.classes);
    return 0;
}

int cli_plan(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    struct cli_option table[END + 1];
    make_table(table);
    const struct cli_usage usage = {
        .synopsis = "prism plan [options]",
        .about = "Say what a request for an emulated job would be given, and how long its phases would take: nodes and GPUs as\n"
                 "srun and sbatch work them out, minutes by the stated model (docs/slurm.md), with --trace from what it holds.",
        .options = table,
    };
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    if (first < argc)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "'%s' is no option: %s", argv[first], usage.synopsis);
    struct prism_error err = { 0 };
    struct options o = { 0 };
    struct plan p = { 0 };
    int rc = make_plan(values, &o, &p, &err);
    options_clear(&o);
    if (rc) {
        rename_options(&err);
        return cli_fail_error(argv[0], &err);
    }
    return values[JSON] ? put_json(&p) : put_text(&p);
}
