/* report_text.c - see report_text.h. Tolerates what an older or newer prismd left out. */
#include "report_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define LABEL "  %-18s "
#define SHOWN 5 /* values shown of a long list: the first ones and the last */

static const char *text(const json_t *report, const char *key)
{
    return json_string_value(json_object_get(report, key));
}

/* A list of numbers as doubles, malloc'ed; *n of them. Other elements are NAN. */
static double *numbers(const json_t *list, size_t *n)
{
    *n = json_array_size(list);
    double *values = malloc((*n + 1) * sizeof(*values));
    if (!values)
        abort();
    for (size_t i = 0; i < *n; i++) {
        const json_t *item = json_array_get(list, i);
        values[i] = json_is_number(item) ? json_number_value(item) : NAN;
    }
    return values;
}

static void print_values(FILE *out, const json_t *list, int digits)
{
    size_t n;
    double *values = numbers(list, &n);
    for (size_t i = 0; i < n; i++) {
        if (n > SHOWN + 1 && i == SHOWN - 1) {
            fprintf(out, "… ");
            i = n - 1;
        }
        fprintf(out, "%.*g ", digits, values[i]);
    }
    free(values);
}

static void print_world(FILE *out, const json_t *report)
{
    json_int_t world = json_integer_value(json_object_get(report, "world"));
    json_int_t per_node = json_integer_value(json_object_get(report, "gpus_per_node"));
    if (world > 0) {
        fprintf(out, LABEL "%lld ranks", "world", (long long)world);
        if (per_node > 0)
            fprintf(out, ", %lld a node", (long long)per_node);
        fputc('\n', out);
    }
    const json_t *sandbox = json_object_get(report, "sandbox");
    size_t n = json_array_size(sandbox);
    if (n > 0) {
        uint32_t *ranks = calloc(n, sizeof(*ranks));
        if (!ranks)
            abort();
        for (size_t i = 0; i < n; i++)
            ranks[i] = (uint32_t)json_integer_value(json_array_get(sandbox, i));
        char *list = format_ranks(ranks, n);
        fprintf(out, LABEL "%s\n", "sandbox ranks", list);
        free(list);
        free(ranks);
    }
    json_int_t devices = json_integer_value(json_object_get(report, "devices"));
    if (devices > 0) {
        fprintf(out, LABEL "%lld", "devices used", (long long)devices);
        if (world > 0)
            fprintf(out, " (%.2f %% of the world)", 100.0 * (double)devices / (double)world);
        json_int_t nodes = json_integer_value(json_object_get(report, "nodes"));
        if (nodes > 0)
            fprintf(out, " on %lld node%s", (long long)nodes, nodes == 1 ? "" : "s");
        fputc('\n', out);
    }
    if (text(report, "transport"))
        fprintf(out, LABEL "%s\n", "transport", text(report, "transport"));
}

static void print_phases(FILE *out, const json_t *report)
{
    json_t *phases = json_object_get(report, "phases");
    if (json_object_size(phases) == 0)
        return;
    fprintf(out, LABEL, "phases");
    const char *name, *between = "";
    json_t *seconds;
    json_object_foreach(phases, name, seconds) {
        char buf[40];
        if (!json_is_number(seconds))
            continue;
        fprintf(out, "%s%s %s", between, name, format_seconds(buf, sizeof(buf), json_number_value(seconds)));
        between = ", ";
    }
    fputc('\n', out);
}

/* predicted_seconds is {"mean": s, "iterations": [s…]} or a plain list. */
static void print_prediction(FILE *out, const json_t *report)
{
    const json_t *predicted = json_object_get(report, "predicted_seconds");
    const json_t *list = json_is_array(predicted) ? predicted : json_object_get(predicted, "iterations");
    size_t n;
    double *values = numbers(list, &n), mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += values[i] / (double)n;
    free(values);
    if (json_is_number(json_object_get(predicted, "mean")))
        mean = json_number_value(json_object_get(predicted, "mean"));
    const json_t *error = json_object_get(report, "prediction_error");
    if (mean <= 0 && !json_is_number(error))
        return;
    char buf[40];
    fprintf(out, LABEL "%s an iteration", "predicted", format_seconds(buf, sizeof(buf), mean));
    if (json_is_number(error))
        fprintf(out, "; measured is off by %.2f %%", 100 * fabs(json_number_value(error)));
    fputc('\n', out);
}

static void print_rank_list(FILE *out, const json_t *report, const char *key, const char *label, int digits)
{
    json_t *ranks = json_object_get(report, key), *list;
    const char *rank;
    if (json_object_size(ranks) == 0)
        return;
    fprintf(out, "  %s\n", label);
    json_object_foreach(ranks, rank, list) {
        fprintf(out, "    rank %-11s ", rank);
        if (json_is_number(list))
            fprintf(out, "%.*g", digits, json_number_value(list));
        else
            print_values(out, list, digits);
        size_t n;
        double *values = numbers(list, &n);
        /* The first iteration carries what programs do once; the median of the others is the one to compare. */
        if (n > 1 && strcmp(key, "iteration_seconds") == 0)
            fprintf(out, " (median after the first %.4f s)", median(values + 1, n - 1));
        free(values);
        fputc('\n', out);
    }
}

static void print_memory(FILE *out, const json_t *report)
{
    json_t *ranks = json_object_get(report, "peak_memory_bytes"), *bytes;
    const char *rank;
    if (json_object_size(ranks) == 0)
        return;
    fprintf(out, "  peak device memory\n");
    json_object_foreach(ranks, rank, bytes) {
        char buf[40];
        fprintf(out, "    rank %-11s %s (%.0f bytes)\n", rank,
                format_bytes(buf, sizeof(buf), json_number_value(bytes)), json_number_value(bytes));
    }
}

static void print_pacing(FILE *out, const json_t *report)
{
    const json_t *pacing = json_object_get(report, "pacing_us");
    if (!json_is_object(pacing))
        return;
    fprintf(out, LABEL "ends late by p50 %.0f us, p95 %.0f us, at most %.0f us\n", "pacing",
            json_number_value(json_object_get(pacing, "p50")), json_number_value(json_object_get(pacing, "p95")),
            json_number_value(json_object_get(pacing, "max")));
}

/* Slow motion: the ranks' own clocks show it, the iterations above do not have it. */
static void print_behind(FILE *out, const json_t *report)
{
    double most = 0;
    const char *rank;
    json_t *seconds;
    json_object_foreach(json_object_get(report, "behind_seconds"), rank, seconds)
        most = json_number_value(seconds) > most ? json_number_value(seconds) : most;
    if (most > 0)
        fprintf(out, LABEL "%.3g s at most: so long sandbox ranks stood still in emulated time, for the replay to catch up\n", "slow motion", most);
}

/* What did not fit on the devices in capture. */
static void print_switching(FILE *out, const json_t *report)
{
    json_t *s = json_object_get(report, "switching");
    if (!s)
        return;
    const double gib = 1ull << 30;
    double bytes = json_number_value(json_object_get(s, "bytes_out")) + json_number_value(json_object_get(s, "bytes_in"));
    double seconds = json_number_value(json_object_get(s, "seconds_out")) + json_number_value(json_object_get(s, "seconds_in"));
    fprintf(out, LABEL "%lld evictions of %lld ranks in capture: %.2f GiB copied at %.1f GB/s; %.2f GiB of host memory, %.2f GiB on disk\n",
            "switching", (long long)json_integer_value(json_object_get(s, "evictions")),
            (long long)json_integer_value(json_object_get(s, "ranks_evicted")), bytes / gib, seconds > 0 ? bytes / seconds / 1e9 : 0,
            json_number_value(json_object_get(s, "host_bytes")) / gib, json_number_value(json_object_get(s, "spilled_bytes")) / gib);
}

static void print_calibration(FILE *out, const json_t *report)
{
    const json_t *calibration = json_object_get(report, "calibration");
    if (json_object_size(calibration) == 0)
        return;
    fprintf(out, LABEL, "calibration");
    static const char *const keys[] = { "classes", "ranks", "slices", "passes" };
    const char *between = "";
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const json_t *value = json_object_get(calibration, keys[i]);
        if (!json_is_number(value))
            continue;
        fprintf(out, "%s%.0f %s", between, json_number_value(value), keys[i]);
        between = ", ";
    }
    fputc('\n', out);
}

/* ops: [{"op", "count", "bytes", "full_ring_bytes"}] */
static void print_ops(FILE *out, const json_t *report)
{
    json_t *ops = json_object_get(report, "ops"), *row;
    size_t i;
    if (json_array_size(ops) == 0)
        return;
    fprintf(out, "  %-18s %10s %14s %18s\n", "operation", "count", "bytes moved", "of the full ring");
    json_array_foreach(ops, i, row) {
        char moved[40], full[40];
        fprintf(out, "    %-16s %10.0f %14s %18s\n", text(row, "op") ? text(row, "op") : "?",
                json_number_value(json_object_get(row, "count")),
                format_bytes(moved, sizeof(moved), json_number_value(json_object_get(row, "bytes"))),
                format_bytes(full, sizeof(full), json_number_value(json_object_get(row, "full_ring_bytes"))));
    }
}

static void print_numerics(FILE *out, const json_t *report)
{
    json_int_t changes = json_integer_value(json_object_get(report, "live_size_changes"));
    if (text(report, "numerics"))
        fprintf(out, LABEL "%s", "numbers", text(report, "numerics"));
    if (text(report, "numerics") && changes > 0)
        fprintf(out, "; %lld groups had other sizes than in capture", (long long)changes);
    if (text(report, "numerics"))
        fputc('\n', out);
}

static void print_fold(FILE *out, const json_t *report)
{
    const json_t *fold = json_object_get(report, "fold");
    json_t *row;
    size_t i;
    if (!fold)
        return;
    fprintf(out, LABEL "folded: %s of the layout %s; %lld ranks ran, %lld of %lld replicas; the replay played %lld\n", "capture", text(fold, "folded") ? text(fold, "folded") : "?",
            text(fold, "layout") ? text(fold, "layout") : "?", (long long)json_integer_value(json_object_get(fold, "ranks_run")),
            (long long)json_integer_value(json_object_get(fold, "replicas_run")),
            (long long)json_integer_value(json_object_get(fold, "replicas")),
            (long long)json_integer_value(json_object_get(fold, "ranks_played")));
    fprintf(out, LABEL "inputs of ranks that did not run are their representative's: exact if all replicas do the same\n", "");
    if (json_array_size(json_object_get(fold, "live_replicas_compared")) == 0)
        fprintf(out, LABEL "how far replicas differ is not known: one ran, or none had inputs in one operation\n", "");
    json_array_foreach(json_object_get(fold, "live_replicas_compared"), i, row)
        fprintf(out, LABEL "%s of %s: inputs of the replicas that ran are %.3g %% apart (%lld of %lld differ)\n", "", text(row, "op") ? text(row, "op") : "?",
                text(row, "datatype") ? text(row, "datatype") : "?", 100 * json_number_value(json_object_get(row, "difference")),
                (long long)json_integer_value(json_object_get(row, "differed")),
                (long long)json_integer_value(json_object_get(row, "compared")));
}

static void print_exit(FILE *out, const json_t *report)
{
    const json_t *code = json_object_get(report, "exit_code");
    if (!json_is_integer(code))
        return;
    const char *origin = text(report, "exit_origin");
    fprintf(out, LABEL "%lld%s%s\n", "exit code", (long long)json_integer_value(code),
            origin ? ", from " : "", !origin ? "" : strcmp(origin, "program") == 0 ? "the program" : "Prism itself");
    if (text(report, "failure"))
        fprintf(out, LABEL "%s\n", "failure", text(report, "failure"));
}

void report_print(FILE *out, const json_t *report)
{
    const char *id = text(report, "trace_id");
    fprintf(out, "Prism report%s%s\n", id ? ", trace " : "", id ? id : "");
    print_world(out, report);
    print_phases(out, report);
    print_switching(out, report);
    print_calibration(out, report);
    print_rank_list(out, report, "iteration_seconds", "iteration seconds", 6);
    print_prediction(out, report);
    print_rank_list(out, report, "losses", "losses", 9);
    print_memory(out, report);
    print_pacing(out, report);
    print_behind(out, report);
    print_ops(out, report);
    print_numerics(out, report);
    print_fold(out, report);
    print_exit(out, report);
}

/* list[index] = value, the gap before it filled with nulls; not if that takes more than is left of *room. */
static bool set_at(json_t *object, const char *rank, size_t index, double value, size_t *room)
{
    size_t have = json_array_size(json_object_get(object, rank)), more = index >= have ? index + 1 - have : 0;
    if (more > *room)
        return false;
    *room -= more;
    json_t *list = json_object_get(object, rank);
    if (!list) {
        list = json_array();
        json_object_set_new(object, rank, list);
    }
    while (json_array_size(list) <= index)
        json_array_append_new(list, json_null());
    /* jansson cannot hold infinities; a diverged loss is null, as in the lists of other tools. */
    json_array_set_new(list, index, isfinite(value) ? json_real(value) : json_null());
    return true;
}

static int compare_ranks(const void *a, const void *b)
{
    unsigned long x = strtoul(*(const char *const *)a, NULL, 10), y = strtoul(*(const char *const *)b, NULL, 10);
    return (x > y) - (x < y);
}

/* A copy with the keys, which are ranks, in ascending order; the original is released. */
static json_t *sorted_by_rank(json_t *object)
{
    size_t n = 0;
    const char **keys = calloc(json_object_size(object) + 1, sizeof(*keys)), *key;
    json_t *value, *sorted = json_object();
    if (!keys)
        abort();
    json_object_foreach(object, key, value)
        keys[n++] = key;
    qsort(keys, n, sizeof(*keys), compare_ranks);
    for (size_t i = 0; i < n; i++)
        json_object_set(sorted, keys[i], json_object_get(object, keys[i]));
    free(keys);
    json_decref(object);
    return sorted;
}

#define MAX_ITERATION 1000000u
#define MAX_VALUES    ((size_t)1 << 24) /* of all ranks: a line must not take memory as it likes */

int report_add_losses(json_t *report, const char *path, struct prism_error *err)
{
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (!in)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--losses-from: cannot read %s: %s", path, strerror(errno));
    json_t *losses = json_object(), *norms = json_object();
    char *line = NULL;
    size_t cap = 0, room = MAX_VALUES;
    int used = 0;
    while (getline(&line, &cap, in) > 0) {
        unsigned rank, iteration;
        double loss, norm;
        const char *at = strstr(line, "rank ");
        int got = at ? sscanf(at, "rank %u iteration %u loss %lf grad_norm %lf", &rank, &iteration, &loss, &norm) : 0;
        if (got < 3 || iteration > MAX_ITERATION)
            continue;
        char key[16];
        snprintf(key, sizeof(key), "%u", rank);
        if (!set_at(losses, key, iteration, loss, &room))
            continue;
        if (got == 4)
            set_at(norms, key, iteration, norm, &room);
        used++;
    }
    free(line);
    if (in != stdin)
        fclose(in);
    json_object_set_new(report, "losses", sorted_by_rank(losses));
    json_object_set_new(report, "grad_norms", sorted_by_rank(norms));
    return used;
}
