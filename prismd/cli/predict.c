/* predict.c - `prism predict`: iteration times from the calibrated graph alone, and where they go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "coll/duration.h"
#include "graph/graph.h"
#include "predict_slack.h"
#include "predict_text.h"
#include "prismd/predict/durations.h"
#include "spank/parse.h"
#include "trace/trace.h"

enum { NETWORK, RANKS, SLOW, COMPARE, SLACK, JSON };

static const struct cli_option options[] = {
    [NETWORK] = { "network", "FILE", "network profile (default PRISM_NETWORK, the trace's own, built-in values)" },
    [RANKS] = { "ranks", "LIST", "also these ranks by themselves, such as 0,17 or 0-63" },
    [SLOW] = { "slow", "RANK=F", "what if: this rank computes F times as long; several: 3=1.2,17=2" },
    [COMPARE] = { "compare", NULL, "two traces, A and B (may be one): how B differs; --slow is then of B alone" },
    [SLACK] = { "slack", NULL, "also how much later each rank may come without the end being later" },
    [JSON] = { "json", NULL, "print as JSON" },
    { 0 },
};
static const struct cli_usage usage = {
    .synopsis = "prism predict TRACE [options], prism predict --compare A B [options]",
    .about = "Evaluate a calibrated trace in virtual time, with all ranks virtual. An iteration lasts from the end of the\n"
             "one before at the slowest rank to its own end there; the first one includes set-up. Of the last iteration: where\n"
             "the ranks' time goes, by pipeline stage, and the critical path.",
    .options = options,
};

/* A trace with all that its prediction needs. */
struct loaded {
    struct trace_manifest manifest;
    struct coll_network network;
    struct durations *measured;
    struct graph *graph;
    char *source;
};

static void unload(struct loaded *t)
{
    durations_destroy(t->measured);
    coll_network_clear(&t->network);
    free(t->source);
    graph_destroy(t->graph);
    trace_manifest_clear(&t->manifest);
}

static int load(const char *dir, const char *network, struct loaded *t, struct prism_error *err)
{
    if (cli_load_trace(dir, network, &t->manifest, &t->graph, err) != 0)
        return -1;
    if (!t->manifest.calibrated)
        return prism_error_set(err, PRISM_EXIT_TRACE, "%s is not calibrated, so it has no times: prism run --phase=calibrate",
                               dir);
    if (cli_load_network(dir, network, &t->network, &t->source, err) != 0)
        return -1;
    return cli_load_durations(dir, network, &t->measured, err);
}

/* "3=1.2,17=2" */
static int slow_down(struct graph *g, const char *text, struct prism_error *err)
{
    for (const char *at = text; *at;) {
        char *end;
        unsigned long rank = strtoul(at, &end, 10);
        double factor = end > at && *end == '=' ? strtod(end + 1, &end) : -1;
        if (!(factor >= 0 && factor <= 1e6) || (*end && *end != ',') || rank > UINT32_MAX)
            return prism_error_set(err, PRISM_EXIT_USAGE, "--slow=%s: RANK=FACTOR is allowed, several with commas between", text);
        if (predict_slow(g, (uint32_t)rank, factor, err) != 0)
            return -1;
        at = *end ? end + 1 : end;
    }
    return 0;
}

static int answer(const char *dir, struct loaded *t, const char *slow, struct predict_answer *a, struct prism_error *err)
{
    if (slow && slow_down(t->graph, slow, err) != 0)
        return -1;
    struct predicted *p = predicted_create(t->graph, &t->network, t->measured, err);
    if (!p)
        return -1;
    a->trace = dir;
    a->network = t->source;
    predict_answer_make(a, p);
    return 0;
}

/* --- Single ranks --- */

static void put_rank(const struct predict_answer *a, uint32_t rank, json_t *seconds_of, json_t *breakdown_of_ranks)
{
    struct prediction own = { 0 };
    struct breakdown b = breakdown_of(a->p, rank);
    char name[16];
    predict_iterations(a->p->graph, a->p->eval, rank, &own);
    snprintf(name, sizeof(name), "%u", rank);
    if (seconds_of) {
        json_t *list = json_array();
        for (uint32_t i = 0; i < own.iterations; i++)
            json_array_append_new(list, json_real(own.seconds[i]));
        json_object_set_new(seconds_of, name, list);
        json_object_set_new(breakdown_of_ranks, name, breakdown_json(&b));
    } else {
        breakdown_print(name, 1, &b);
        printf("    iteration seconds");
        for (uint32_t i = 0; i < own.iterations; i++)
            printf(" %.6g", own.seconds[i]);
        printf("\n");
    }
    prediction_clear(&own);
}

static void put_ranks(const struct predict_answer *a, const struct parse_ranks *ranks, json_t *seconds, json_t *breakdowns)
{
    for (size_t i = 0; i < ranks->nranges; i++)
        for (uint32_t r = ranks->ranges[i].first; r <= ranks->ranges[i].last; r++)
            put_rank(a, r, seconds, breakdowns);
}

/* slack: by rank, NULL = not asked for. */
static int print_one(const struct predict_answer *a, const struct parse_ranks *ranks, const int64_t *slack, bool as_json)
{
    if (as_json) {
        json_t *root = predict_answer_json(a), *seconds = json_object(), *breakdowns = json_object();
        put_ranks(a, ranks, seconds, breakdowns);
        json_object_set_new(root, "ranks", seconds);
        json_object_set_new(root, "rank_breakdowns", breakdowns);
        if (slack)
            json_object_set_new(root, "slack_seconds", slack_json(a->p, slack));
        return print_json(root);
    }
    predict_answer_print(a);
    if (ranks->nranges)
        breakdown_print_head("rank");
    put_ranks(a, ranks, NULL, NULL);
    if (slack)
        slack_print(a->p, slack);
    return 0;
}

static int predict_one(const char *dir, const char *const *values, const struct parse_ranks *ranks, struct prism_error *err)
{
    struct loaded t = { 0 };
    struct predict_answer a = { 0 };
    int64_t *slack = NULL;
    int result = -1;
    if (load(dir, values[NETWORK], &t, err) == 0) {
        if (ranks->count > 0 && ranks->highest >= t.graph->world)
            prism_error_set(err, PRISM_EXIT_USAGE, "--ranks: there is no rank %u in a world of %u", ranks->highest,
                            t.graph->world);
        else if (answer(dir, &t, values[SLOW], &a, err) == 0 &&
                 (!values[SLACK] || (slack = predict_slack(t.graph, &t.network, t.measured, err))))
            result = print_one(&a, ranks, slack, values[JSON] != NULL);
    }
    free(slack);
    if (a.p)
        predict_answer_clear(&a);
    unload(&t);
    return result;
}

/* --- Two traces --- */

static int print_two(const struct predict_answer *a, const struct predict_answer *b, bool as_json)
{
    if (!as_json) {
        predict_compare_print(a, b);
        return 0;
    }
    double from = predict_steady(&a->all), to = predict_steady(&b->all);
    return print_json(json_pack("{s:o, s:o, s:f}", "a", predict_answer_json(a), "b", predict_answer_json(b), "difference",
                                from > 0 ? (to - from) / from : 0));
}

static int compare(const char *const *dirs, const char *const *values, struct prism_error *err)
{
    struct loaded t[2] = { { .graph = NULL } };
    struct predict_answer a[2] = { { .p = NULL } };
    int result = -1;
    if (load(dirs[0], values[NETWORK], &t[0], err) == 0 && answer(dirs[0], &t[0], NULL, &a[0], err) == 0 &&
        load(dirs[1], values[NETWORK], &t[1], err) == 0 && answer(dirs[1], &t[1], values[SLOW], &a[1], err) == 0)
        result = print_two(&a[0], &a[1], values[JSON] != NULL);
    for (int i = 0; i < 2; i++) {
        if (a[i].p)
            predict_answer_clear(&a[i]);
        unload(&t[i]);
    }
    return result;
}

int cli_predict(int argc, char **argv)
{
    const char *values[CLI_MAX_OPTIONS];
    int exit_code, first = cli_parse(argc, argv, &usage, values, false, &exit_code);
    if (first < 0)
        return exit_code;
    struct prism_error err = { 0 };
    struct parse_ranks ranks = { 0 };
    if (argc - first != (values[COMPARE] ? 2 : 1))
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "name %s: %s", values[COMPARE] ? "two traces" : "one trace", usage.synopsis);
    if (values[RANKS] && parse_ranks(values[RANKS], &ranks, &err) != 0)
        return cli_fail(argv[0], PRISM_EXIT_USAGE, "--ranks=%s: %s", values[RANKS], err.text);
    int result = values[COMPARE] ? compare((const char *const *)argv + first, values, &err)
                                 : predict_one(argv[first], values, &ranks, &err);
    parse_ranks_clear(&ranks);
    return result < 0 ? cli_fail_error(argv[0], &err) : result;
}
