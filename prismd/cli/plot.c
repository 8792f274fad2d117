/* plot.c - `prism plot`: pictures of the predicted timeline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/duration.h"
#include "graph/graph.h"
#include "plot.h"
#include "prismd/predict/durations.h"
#include "prismd/predict/stages.h"
#include "spank/parse.h"
#include "timeline_select.h"
#include "trace/trace.h"

enum { OUTPUT, WHAT, RANKS, ITERATIONS, NETWORK, WIDTH, JSON };

static const struct cli_option options[] = {
    [OUTPUT] = { "output", "FILE", "the picture, .svg or .png (also as second operand)" },
    [WHAT] = { "what", "timeline|utilisation", "what to draw (default timeline)" },
    [RANKS] = { "ranks", "LIST", "these ranks, such as 0,17,4096-4099 (default: all up to 16, else the first of each stage)" },
    [ITERATIONS] = { "iterations", "N|N-M", "iterations, counted from 0 (default the last recorded one)" },
    [NETWORK] = { "network", "FILE", "network profile (default PRISM_NETWORK, the trace's own, built-in values)" },
    [WIDTH] = { "width", "PIXELS", "800 to 8000 (default 1600)" },
    [JSON] = { "json", NULL, "print each rank's shares of the time as JSON; the picture may then be left out" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism plot TRACE --output=FILE [options]",
    .about = "Draw what ranks do in virtual time: compute, exposed and hidden communication, bubbles. timeline: a row a\n"
             "rank, for up to 8 ranks also one a stream. utilisation: shares over time, and of each pipeline stage.",
    .options = options,
};

#define DEFAULT_RANKS 16
#define MOST_RANKS    512

static const char *last_part(const char *path)
{
    const char *end = path + strlen(path);
    while (end > path + 1 && end[-1] == '/')
        end--;
    const char *start = end;
    while (start > path && start[-1] != '/')
        start--;
    static char name[256];
    snprintf(name, sizeof(name), "%.*s", (int)(end - start), start);
    return name;
}

struct request {
    const char *dir, *output;
    bool utilisation;
    const char *const *values;
    double width;
};

/* The numbers of the picture. */
static int print_shares(const struct plot *p)
{
    json_t *ranks = json_array();
    for (uint32_t i = 0; i < p->t->nranks; i++) {
        double share[STATES];
        uint32_t rank = p->t->ranks[i];
        plot_states(p, i, share, NULL, NULL);
        json_array_append_new(ranks,
            json_pack("{s:i,s:i,s:i,s:f,s:f,s:f,s:f}", "rank", (int)rank, "stage", (int)p->stage[rank], "stands_for",
                      (int)p->weight[i], "compute", share[STATE_COMPUTE] + share[STATE_HIDDEN_COLLECTIVE] + share[STATE_HIDDEN_P2P],
                      "hidden_communication", share[STATE_HIDDEN_COLLECTIVE] + share[STATE_HIDDEN_P2P],
                      "exposed_communication", share[STATE_EXPOSED_COLLECTIVE] + share[STATE_EXPOSED_P2P], "idle", share[STATE_IDLE]));
    }
    return print_json(json_pack("{s:f,s:i,s:i,s:o}", "seconds", (double)(p->end - p->begin) * 1e-9, "first_iteration",
                                (int)p->first, "last_iteration", (int)p->last, "ranks", ranks));
}

static int draw_plot(const struct request *q, const struct plot *p, struct prism_error *err)
{
    if (p->begin == p->end)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s: nothing of these ranks lies in iterations %u to %u", q->dir, p->first,
                               p->last);
    if (q->output && (q->utilisation ? plot_utilisation(p, q->output, err) : plot_timeline(p, q->output, err)) != 0)
        return -1;
    if (q->values[JSON] && print_shares(p) != 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "standard output cannot be written");
    return 0;
}

static int draw(const struct request *q, const struct graph *g, struct prism_error *err)
{
    struct coll_network network = { 0 };
    struct durations *measured = NULL;
    struct timeline t = { 0 };
    struct plot p = { .t = &t, .name = last_part(q->dir), .width = q->width };
    uint32_t *stage = calloc(g->world + 1u, sizeof(*stage));
    uint32_t *ranks = NULL, *weight = NULL, n = 0;
    char *source = NULL;
    int failed = timeline_iterations(q->values[ITERATIONS], g, &p.first, &p.last, err) != 0 ||
                 cli_load_network(q->dir, q->values[NETWORK], &network, &source, err) != 0 ||
                 cli_load_durations(q->dir, q->values[NETWORK], &measured, err) != 0;
    if (!failed) {
        p.nstages = stages_find(g, stage);
        p.stage = stage;
        p.network = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
        failed = timeline_ranks(q->values[RANKS], g, stage, p.nstages, DEFAULT_RANKS, MOST_RANKS, &ranks, &weight, &n, &p.how, err) != 0;
    }
    p.weight = weight;
    failed = failed || timeline_create(&t, g, &network, measured, ranks, n, err) != 0;
    if (!failed) {
        timeline_window(&t, p.first, p.last, &p.begin, &p.end);
        failed = draw_plot(q, &p, err);
    }
    timeline_clear(&t);
    free(stage);
    free(ranks);
    free(weight);
    free(source);
    durations_destroy(measured);
    coll_network_clear(&network);
    return failed ? -1 : 0;
}

static int run(const struct request *q, const char *command)
{
    struct prism_error err = { 0 };
    struct trace_manifest manifest = { 0 };
    struct graph *graph;
    if (cli_load_trace(q->dir, q->values[NETWORK], &manifest, &graph, &err) != 0)
        return cli_fail_error(command, &err);
    int failed = manifest.calibrated ? draw(q, graph, &err)
                                     : prism_error_set(&err, PRISM_EXIT_TRACE, "%s is not calibrated, so it has no times: prism run --phase=calibrate",
                                                       q->dir);
    graph_destroy(graph);
    trace_manifest_clear(&manifest);
    return failed ? cli_fail_error(command, &err) : 0;
}

int cli_plot(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    static const char *const whats[] = { "timeline", "utilisation", NULL };
    struct prism_error err = { 0 };
    size_t what = 0;
    uint64_t width = 1600;
    if (first < 0)
        return exit_code;
    int operands = argc - first;
    if (operands < 1 || operands > 2)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one trace: %s", usage.synopsis);
    const char *output = operands == 2 ? argv[first + 1] : values[OUTPUT];
    if ((!output && !values[JSON]) || (operands == 2 && values[OUTPUT]))
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name one picture, --output=FILE.svg or FILE.png");
    const char *ending = output ? strrchr(output, '.') : ".svg";
    if (!ending || (strcmp(ending, ".svg") != 0 && strcmp(ending, ".png") != 0))
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--output=%s: the name must end in .svg or .png", output);
    if (values[WHAT] && parse_choice(values[WHAT], whats, &what, &err) != 0)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--what=%s: %s", values[WHAT], err.text);
    if (values[WIDTH] && parse_number(values[WIDTH], 800, 8000, &width, &err) != 0)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--width=%s: %s", values[WIDTH], err.text);
    const struct request q = { argv[first], output, what == 1, values, (double)width };
    return run(&q, argv[0]);
}
