/* acct_text.c - what sacct says of emulated jobs, as a table and as JSON. */
#include "acct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "prismd/report/accounting_text.h"

enum { ID, NAME, USER, ACCOUNT, STATE, ELAPSED, TRES, ADMIN, COMMENT, FIELDS };

/* One allocation; text points into sacct's output. */
struct job {
    char *field[FIELDS];
    const char *part; /* "prism:..." of the Comment, else of the AdminComment */
    double elapsed, gpus, licences;
};

/* A name with a delimiter in it moves fields: what is no sensible number is none. */
static double number_of(const char *text)
{
    double value = strtod(text, NULL);
    return value >= 0 && value < 1e15 ? value : 0;
}

/* "cpu=1,gres/gpu=4,license/prism_gpu=64": the number of one of them; 0 = none. */
static double tres_of(const char *tres, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = tres; *p;) {
        size_t item = strcspn(p, ",");
        if (item > len && memcmp(p, name, len) == 0 && p[len] == '=')
            return number_of(p + len + 1);
        p += item + (p[item] == ',');
    }
    return 0;
}

/* Takes the next record apart; false at the end. Comments may hold new lines, so only the fields are counted. */
static bool next_job(char **at, struct job *job)
{
    *job = (struct job){ 0 };
    for (int i = 0; i < FIELDS; i++) {
        char *end = strchr(*at, ACCT_DELIMITER);
        if (!end)
            return false;
        *end = '\0';
        job->field[i] = *at;
        *at = end + 1;
    }
    if (**at == '\n')
        (*at)++;
    job->part = accounting_find(job->field[COMMENT]);
    if (!job->part)
        job->part = accounting_find(job->field[ADMIN]);
    job->elapsed = number_of(job->field[ELAPSED]);
    job->gpus = tres_of(job->field[TRES], "gres/gpu");
    job->licences = tres_of(job->field[TRES], "license/prism_gpu");
    if (job->licences == 0)
        job->licences = tres_of(job->field[TRES], "license/prism_rank");
    return true;
}

static double gpu_hours(const struct job *j) { return j->gpus * j->elapsed / 3600; }

/* What sreport counts; without licences what prismd measured. NAN: neither. */
static double emulated_hours(const struct job *j)
{
    return j->licences > 0 ? j->licences * j->elapsed / 3600 : accounting_number(j->part, "emulated_gpu_hours");
}

/* --- JSON --- */

static void put_number(json_t *to, const char *name, double value)
{
    if (!isnan(value))
        json_object_set_new(to, name, json_real(value));
}

static void put_text(json_t *to, const char *name, const char *text)
{
    json_t *value = json_string(text);
    json_object_set_new(to, name, value ? value : json_string("(not UTF-8)"));
}

static json_t *results_json(const char *part)
{
    static const char *const whole[] = { "world", "nodes", "gpus_per_node", "devices", "sandbox_ranks", "assistants",
                                         "iterations", "peak_memory_bytes", "exit_code", "steps", "failed" };
    static const char *const real[] = { "iteration_seconds", "prediction_error", "emulated_gpu_hours", "capture_seconds",
                                        "calibrate_seconds", "emulate_seconds" };
    static const char *const text[] = { "sandbox", "phase", "step", "restart", "state", "trace_id", "exit_origin" };
    json_t *out = json_object();
    char value[ACCOUNTING_MAX];
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        double n = accounting_number(part, whole[i]);
        if (!isnan(n) && fabs(n) < 9e15)
            json_object_set_new(out, whole[i], json_integer((json_int_t)n));
    }
    for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++)
        put_number(out, real[i], accounting_number(part, real[i]));
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
        if (accounting_value(part, text[i], value, sizeof(value)))
            put_text(out, text[i], value);
    return out;
}

static json_t *job_json(const struct job *j)
{
    json_t *out = json_object();
    put_text(out, "job", j->field[ID]);
    put_text(out, "name", j->field[NAME]);
    put_text(out, "user", j->field[USER]);
    put_text(out, "account", j->field[ACCOUNT]);
    put_text(out, "state", j->field[STATE]);
    put_number(out, "elapsed_seconds", j->elapsed);
    put_number(out, "gpus", j->gpus);
    put_number(out, "licences", j->licences);
    put_number(out, "gpu_hours", gpu_hours(j));
    put_number(out, "emulated_gpu_hours", emulated_hours(j));
    json_object_set_new(out, "run", results_json(j->part));
    return out;
}

/* --- table --- */

static const char *text_of(const char *part, const char *key, char *buf, size_t size)
{
    if (!accounting_value(part, key, buf, size))
        snprintf(buf, size, "-");
    return buf;
}

static const char *hours(double value, char buf[24])
{
    snprintf(buf, 24, isnan(value) ? "-" : "%.3f", value);
    return buf;
}

static void print_head(FILE *out)
{
    fprintf(out, "%-10s %-14s %-10s %-10s %8s %8s %5s %9s %14s %10s %10s %8s %s\n", "JOB", "NAME", "ACCOUNT", "STATE", "ELAPSED",
           "WORLD", "GPUS", "GPU-H", "EMULATED-GPU-H", "ITERATION", "PEAK", "ERROR", "ENDED BY");
}

static void print_job(FILE *out, const struct job *j)
{
    char world[24], own[24], emulated[24], iteration[40] = "-", peak[40] = "-", error[24] = "-", origin[24];
    double seconds = accounting_number(j->part, "iteration_seconds"), bytes = accounting_number(j->part, "peak_memory_bytes");
    double off = accounting_number(j->part, "prediction_error");
    if (!isnan(seconds))
        format_seconds(iteration, sizeof(iteration), seconds);
    if (!isnan(bytes))
        format_bytes(peak, sizeof(peak), bytes);
    if (!isnan(off))
        snprintf(error, sizeof(error), "%.2f %%", off * 100);
    fprintf(out, "%-10s %-14.14s %-10.10s %-10.10s %7.0fs %8s %5.0f %9s %14s %10s %10s %8s %s\n", j->field[ID], j->field[NAME],
           j->field[ACCOUNT], j->field[STATE], j->elapsed, text_of(j->part, "world", world, sizeof(world)), j->gpus,
           hours(gpu_hours(j), own), hours(emulated_hours(j), emulated), iteration, peak, error,
           text_of(j->part, "exit_origin", origin, sizeof(origin)));
}

static void print_total(FILE *out, unsigned n, double own, double emulated)
{
    char a[24], b[24];
    if (n != 1)
        fprintf(out, "%-10s %u jobs%*s %9s %14s\n", "all", n, 56, "", hours(own, a), hours(emulated, b));
}

json_t *acct_json(char *text)
{
    struct job job;
    json_t *list = json_array();
    double own = 0, emulated = 0;
    while (next_job(&text, &job)) {
        if (!job.part)
            continue;
        json_array_append_new(list, job_json(&job));
        own += gpu_hours(&job);
        emulated += isnan(emulated_hours(&job)) ? 0 : emulated_hours(&job);
    }
    return json_pack("{s:o, s:f, s:f}", "jobs", list, "gpu_hours", own, "emulated_gpu_hours", emulated);
}

void acct_print(FILE *out, char *text)
{
    struct job job;
    unsigned n = 0;
    double own = 0, emulated = 0;
    while (next_job(&text, &job)) {
        if (!job.part)
            continue;
        if (n++ == 0)
            print_head(out);
        print_job(out, &job);
        own += gpu_hours(&job);
        emulated += isnan(emulated_hours(&job)) ? 0 : emulated_hours(&job);
    }
    if (n == 0)
        fputs("no emulated jobs (since today's midnight unless --start or -j says otherwise)\n", out);
    else
        print_total(out, n, own, emulated);
}
