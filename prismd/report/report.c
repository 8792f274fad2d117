#include "prismd/report/report.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "coll/synthetic.h"
#include "common/file.h"
#include "prismd/folding/folding_spread.h"
#include "prismd/link/link.h"
#include "prismd/switching/switching.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, uint32_t n, double q)
{
    return n ? sorted[(uint32_t)(q * (n - 1) + 0.5)] : 0;
}

static json_t *list_of(const double *values, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

double report_steady_mean(const double *seconds, uint32_t n)
{
    double sum = 0;
    uint32_t from = n > 1 ? 1 : 0;
    for (uint32_t i = from; i < n; i++)
        sum += seconds[i];
    return n > from ? sum / (n - from) : 0;
}

static void put_ranks(json_t *root, const struct results *results)
{
    json_t *seconds = json_object(), *peaks = json_object(), *ballast = json_object(), *behind = json_object();
    const char *table = getenv("PRISM_BALLAST");
    char name[16];
    for (uint32_t i = 0; i < results->nranks; i++) {
        const struct rank_result *r = &results->ranks[i];
        snprintf(name, sizeof name, "%u", r->rank);
        json_object_set_new(seconds, name, list_of(r->seconds, r->iterations));
        json_object_set_new(behind, name, json_real(r->behind_seconds));
        json_object_set_new(peaks, name, json_integer((json_int_t)r->peak_bytes));
        json_object_set_new(ballast, name, json_integer((json_int_t)r->ballast_bytes));
    }
    json_object_set_new(root, "iteration_seconds", seconds);
    json_object_set_new(root, "behind_seconds", behind);
    json_object_set_new(root, "peak_memory_bytes", peaks);
    json_object_set_new(root, "ballast_bytes", ballast);
    json_object_set_new(root, "ballast_table", table && *table ? json_string(table) : json_null());
}

double report_predicted_mean(const struct prediction *p, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 1; i < n && p->iterations; i++)
        sum += p->seconds[i < p->iterations ? i : p->iterations - 1];
    return n > 1 ? sum / (n - 1) : report_steady_mean(p->seconds, p->iterations);
}

static void put_prediction(json_t *root, const struct results *results, const struct prediction *p)
{
    double predicted = 0, measured = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < results->nranks; i++) {
        const struct rank_result *r = &results->ranks[i];
        if (r->iterations < 2)
            continue;
        measured += report_steady_mean(r->seconds, r->iterations);
        predicted += report_predicted_mean(p, r->iterations);
        n++;
    }
    double mean = n ? predicted / n : report_predicted_mean(p, p->iterations);
    json_object_set_new(root, "predicted_seconds", json_pack("{s:o, s:f}", "iterations", list_of(p->seconds, p->iterations), "mean", mean));
    if (n && mean > 0)
        json_object_set_new(root, "prediction_error", json_real(fabs(measured / n - mean) / mean));
}

static void put_pacing(json_t *root, const struct results *results)
{
    uint32_t n = results->npacing;
    double *sorted = malloc((n + 1u) * sizeof *sorted), mean = 0;
    if (!sorted)
        abort();
    memcpy(sorted, results->pacing_us, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    double median = quantile(sorted, n, 0.5);
    for (uint32_t i = 0; i < n; i++) {
        mean += sorted[i] / n;
        sorted[i] = fabs(sorted[i]);
    }
    qsort(sorted, n, sizeof *sorted, by_value);
    json_object_set_new(root, "pacing_us",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "p50", quantile(sorted, n, 0.5), "p95",
                                  quantile(sorted, n, 0.95), "p99", quantile(sorted, n, 0.99), "max", quantile(sorted, n, 1),
                                  "late_p50", median, "late_mean", mean, "gates", (int)n));
    free(sorted);
}

/* What real communication moved, and whether payloads lay ready. Bytes are those through sandbox ranks' links, in both
 * directions. */
static void put_assistants(json_t *root, const struct daemon *d, const struct results *results)
{
    const struct assist_result *a = &results->assist;
    json_t *ops = json_array();
    for (int op = 1; op < PRISM_OP_END; op++) {
        const struct coll_use_op *use = &a->use.ops[op];
        if (use->count)
            json_array_append_new(ops, json_pack("{s:s, s:I, s:I, s:I}", "op", prism_op_name(op), "count",
                                                 (json_int_t)use->count, "bytes", (json_int_t)use->bytes,
                                                 "full_ring_bytes", (json_int_t)use->full));
    }
    json_object_set_new(root, "assistants", json_integer(d->conf->assistants));
    json_object_set_new(root, "armed_ahead", json_integer((json_int_t)a->armed_ahead));
    json_object_set_new(root, "ops", ops);
    json_object_set_new(root, "assistant_payloads",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "hits", (json_int_t)a->counts.hits, "kept", (json_int_t)a->counts.kept, "late",
                                  (json_int_t)a->counts.late, "misses", (json_int_t)a->counts.misses, "bytes",
                                  (json_int_t)a->counts.payload_bytes));
}

static uint32_t devices_used(const struct daemon *d)
{
    uint32_t assistants = d->conf->assistants > 0 ? (uint32_t)d->conf->assistants : 0;
    uint32_t emulation = d->conf->nsandbox + assistants, all = d->conf->ndevices * d->conf->nodes;
    return emulation > all ? emulation : all;
}

static void put_head(const struct daemon *d, json_t *root, const struct trace_manifest *m, const struct report *r)
{
    json_t *sandbox = json_array();
    for (uint32_t i = 0; i < d->conf->nsandbox; i++)
        json_array_append_new(sandbox, json_integer(d->conf->sandbox[i]));
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "trace_id", json_string(m->trace_id ? m->trace_id : ""));
    json_object_set_new(root, "world", json_integer(d->conf->world));
    json_object_set_new(root, "gpus_per_node", json_integer(d->conf->gpus_per_node));
    json_object_set_new(root, "sandbox", sandbox);
    json_object_set_new(root, "devices", json_integer(devices_used(d)));
    json_object_set_new(root, "nodes", json_integer(d->conf->nodes));
    json_object_set_new(root, "transport", json_string(r->transport == TRANSPORT_NCCL ? "nccl" : "paced"));
    json_object_set_new(root, "phases",
                        json_pack("{s:f, s:f, s:f}", "capture", r->capture_seconds, "calibrate", r->calibrate_seconds,
                                  "emulate", r->emulate_seconds));
    json_object_set_new(root, "calibration",
                        json_pack("{s:i, s:i, s:i, s:i}", "slices", (int)r->slices, "ranks", (int)r->calibrated_ranks, "classes",
                                  (int)d->graph->nclasses, "measured_durations", (int)r->measured_durations));
    if (r->slices)
        json_object_set_new(json_object_get(root, "calibration"), "transport",
                            json_string(r->calibrated_by == TRANSPORT_NCCL ? "nccl" : "paced"));
}

static int write_text(const char *path, const char *text, struct prism_error *err)
{
    return file_write_atomic(path, text, strlen(text), 0644, err);
}

/* What of the numbers is the full job's. */
static void put_numerics(json_t *root, const struct daemon *d, const struct trace_manifest *m)
{
    char text[192];
    uint32_t n = d->graph->ranks[0].niterations;
    if (d->conf->payload == TRACE_PAYLOAD_NONE)
        snprintf(text, sizeof text, "zero: nothing of what absent ranks sent is delivered");
    else if (d->conf->payload == TRACE_PAYLOAD_CONTROL)
        snprintf(text, sizeof text, "exact 1-%u but for floating-point data of more than %u bytes, which is synthetic; looped after", n,
                 COLL_SYNTHETIC_KEEPS);
    else if (!m->payload)
        snprintf(text, sizeof text, "as recorded 1-%u, looped after; an old trace, which does not say if control mode recorded it", n);
    else
        snprintf(text, sizeof text, "exact 1-%u, looped after", n);
    json_object_set_new(root, "payload", json_string(trace_payload_name(d->conf->payload)));
    json_object_set_new(root, "numerics", json_string(text));
}

int report_write(const struct daemon *d, const struct trace_manifest *m, const struct report *report,
                 const struct results *results, const struct prediction *predicted, struct prism_error *err)
{
    json_t *root = json_object();
    int64_t clock_error = 0;
    put_head(d, root, m, report);
    put_ranks(root, results);
    put_prediction(root, results, predicted);
    put_pacing(root, results);
    if (report->transport == TRANSPORT_NCCL)
        put_assistants(root, d, results);
    link_clock_offset_ns(d, &clock_error);
    json_object_set_new(root, "clock_error_us", json_real((double)clock_error / 1e3));
    json_object_set_new(root, "prefetch",
                        json_pack("{s:I, s:I, s:I}", "hits", (json_int_t)results->prefetch_hits, "misses",
                                  (json_int_t)results->prefetch_misses, "bytes", (json_int_t)results->payload_bytes));
    json_object_set_new(root, "live_size_changes", json_integer((json_int_t)results->size_changes));
    if (results->changed)
        json_object_set_new(root, "first_size_change_iteration", json_integer(results->first_change));
    json_t *fold = folding_report(d->conf);
    if (fold)
        json_object_set_new(root, "fold", fold);
    json_t *switching = switching_load(d->conf->trace);
    if (switching)
        json_object_set_new(root, "switching", switching);
    put_numerics(root, d, m);
    bool failed = d->failure.code != 0;
    json_object_set_new(root, "exit_origin", json_string(failed && d->program_exit <= 0 ? "prism" : "program"));
    json_object_set_new(root, "exit_code",
                        json_integer(failed ? (d->program_exit > 0 ? d->program_exit : d->failure.code) : 0));
    if (failed)
        json_object_set_new(root, "failure", json_string(d->failure.text));
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (!text)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot make the report: out of memory");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/report.json", d->conf->trace);
    int rc = write_text(path, text, err);
    if (!rc && d->conf->report)
        rc = write_text(d->conf->report, text, err);
    free(text);
    return rc;
}
