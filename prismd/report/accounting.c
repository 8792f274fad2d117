#include "prismd/report/accounting.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>
#include <jansson.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/report/accounting_text.h"
#include "prismd/ranks/child.h"
#include "prismd/replay/emulate.h"
#include "prismd/report/report.h"

#define INTERVAL_SECONDS 60
#define END_SECONDS      10 /* for the last update, before the run goes on without it */

static struct {
    pid_t store; /* `prism acct --store`; 0 = none */
    int pipe;
    struct event *timer;
    struct accounting_record record;
    double *phase_seconds; /* of the phase that runs, or NULL */
    int64_t phase_began_ns;
    const char *phase; /* that runs */
    bool certain;      /* it is an emulation */
    char *sandbox;     /* owned */
} self = {.pipe = -1};

/* --- the child that talks to slurmctld --- */

/* The job as squeue and scontrol name it: a task of an array by both its numbers. malloc'ed, NULL outside a job. */
static char *job_name(void)
{
    const char *job = getenv("SLURM_JOB_ID"), *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID");
    char *name = NULL;
    if (!job || !*job || !getenv("PRISM_STEP_ID"))
        return NULL;
    if (!array || !task)
        return strdup(job);
    return asprintf(&name, "%s_%s", array, task) < 0 ? NULL : name;
}

static void run_store(int input, const char *job)
{
    char prism[PATH_MAX];
    if (child_find("prism", prism))
        _exit(127);
    dup2(input, 0);
    unsetenv("LD_PRELOAD");
    execl(prism, prism, "acct", "--store", job, (char *)NULL);
    _exit(127);
}

static void start_store(const char *job)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return;
    pid_t pid = fork();
    if (!pid)
        run_store(ends[0], job);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return;
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK); /* nothing here may hold up the run */
    self.store = pid;
    self.pipe = ends[1];
}

bool accounting_reaped(pid_t pid, int status)
{
    if (!self.store || pid != self.store)
        return false;
    self.store = 0;
    if (WIFSIGNALED(status) || WEXITSTATUS(status) == 127) /* else it has said itself what went wrong */
        log_warn("the job's Comment could not be updated with the results (status %d); they are in the report", status);
    return true;
}

/* --- what is told --- */

static void take_time(void)
{
    int64_t now = clock_now_ns();
    if (self.phase_seconds)
        *self.phase_seconds += (double)(now - self.phase_began_ns) / 1e9;
    self.phase_began_ns = now;
}

/* How far an emulation is that still runs: this node's sandbox ranks. */
static void take_live(struct daemon *d)
{
    double sum = 0;
    uint32_t ranks = 0, most = 0;
    for (uint32_t i = 0; d->phase == PHASE_EMULATE && d->ops && d->ranks && i < d->conf->nsandbox; i++) {
        struct rank *r = d->ranks[d->conf->sandbox[i]];
        struct emulate_result e = r && r->phase_data ? emulate_rank_result(d, r->number) : (struct emulate_result){0};
        if (r && r->peak_bytes > self.record.peak_memory_bytes)
            self.record.peak_memory_bytes = r->peak_bytes;
        if (!e.iterations)
            continue;
        sum += report_steady_mean(e.seconds, e.iterations);
        ranks++;
        most = e.iterations > most ? e.iterations : most;
    }
    if (!ranks)
        return;
    self.record.iterations = most;
    self.record.iteration_seconds = sum / ranks;
}

static void publish(struct daemon *d)
{
    char text[ACCOUNTING_MAX + 1];
    if (self.pipe < 0)
        return;
    take_time();
    take_live(d);
    self.certain |= d->phase == PHASE_CAPTURE && d->graph && d->graph->ncomms;
    if (self.certain && self.phase)
        self.record.state = self.phase;
    accounting_print(&self.record, text);
    strcat(text, "\n");
    /* Lines shorter than PIPE_BUF go whole or not at all; one that finds the pipe full is replaced by the next. */
    if (write(self.pipe, text, strlen(text)) < 0 && errno != EAGAIN) {
        close(self.pipe);
        self.pipe = -1;
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct daemon *d = arg;
    (void)fd;
    (void)what;
    pthread_mutex_lock(&d->lock);
    publish(d);
    pthread_mutex_unlock(&d->lock);
}

static void start_timer(struct daemon *d)
{
    const char *text = getenv("PRISM_ACCOUNTING_SECONDS");
    struct timeval interval = {text && atoi(text) > 0 ? atoi(text) : INTERVAL_SECONDS, 0};
    self.timer = event_new(d->base, -1, EV_PERSIST, on_timer, d);
    if (self.timer)
        event_add(self.timer, &interval);
}

static char *sandbox_text(const struct conf *c)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (uint32_t i = 0, last; out && i < c->nsandbox; i = last + 1) {
        for (last = i; last + 1 < c->nsandbox && c->sandbox[last + 1] == c->sandbox[last] + 1;)
            last++;
        fprintf(out, last > i ? "%s%u-%u" : "%s%u", i ? "," : "", c->sandbox[i], c->sandbox[last]);
    }
    if (out)
        fclose(out);
    return text;
}

void accounting_begin(struct daemon *d)
{
    static const char *const phases[] = {"auto", "capture", "calibrate", "emulate"};
    const struct conf *c = d->conf;
    char *job = c->node ? NULL : job_name();
    if (!job)
        return;
    self.sandbox = sandbox_text(c);
    self.record = (struct accounting_record){.world = c->world,
                                             .gpus_per_node = c->gpus_per_node,
                                             .devices = c->ndevices * c->nodes,
                                             .sandbox_ranks = c->nsandbox,
                                             .sandbox = self.sandbox,
                                             .assistants = c->assistants,
                                             .phase = phases[c->phase],
                                             .step = c->step,
                                             .restart = getenv("SLURM_RESTART_COUNT"),
                                             .state = "begun",
                                             .prediction_error = -1,
                                             .exit_code = -1};
    start_store(job);
    free(job);
    start_timer(d);
    publish(d);
}

void accounting_phase(struct daemon *d, const char *name, const char *trace_id)
{
    static const struct {
        const char *name;
        size_t seconds;
    } phases[] = {{"capture", offsetof(struct accounting_record, capture_seconds)},
                  {"calibrate", offsetof(struct accounting_record, calibrate_seconds)},
                  {"emulate", offsetof(struct accounting_record, emulate_seconds)}};
    take_time();
    self.phase = name;
    self.certain |= strcmp(name, "capture") != 0;
    self.record.trace_id = trace_id;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        if (!strcmp(name, phases[i].name))
            self.phase_seconds = (double *)(void *)((char *)&self.record + phases[i].seconds);
    publish(d);
}

/* Means over sandbox ranks, of each rank's mean without its first iteration, as the report's prediction_error takes them. */
static void take_iterations(const json_t *ranks)
{
    const char *rank;
    json_t *list;
    double sum = 0;
    uint32_t n = 0, most = 0;
    json_object_foreach((json_t *)ranks, rank, list) {
        uint32_t count = (uint32_t)json_array_size(list);
        double *seconds = malloc((count + 1u) * sizeof *seconds);
        if (!seconds)
            return;
        for (uint32_t i = 0; i < count; i++)
            seconds[i] = json_number_value(json_array_get(list, i));
        sum += count ? report_steady_mean(seconds, count) : 0;
        n += count > 0;
        most = count > most ? count : most;
        free(seconds);
    }
    if (!n)
        return;
    self.record.iterations = most;
    self.record.iteration_seconds = sum / n;
}

void accounting_report(struct daemon *d)
{
    char path[PATH_MAX];
    const char *rank;
    json_t *peak;
    if (self.pipe < 0)
        return;
    snprintf(path, sizeof path, "%s/report.json", d->conf->trace);
    json_t *report = json_load_file(path, 0, NULL);
    take_iterations(json_object_get(report, "iteration_seconds"));
    json_object_foreach(json_object_get(report, "peak_memory_bytes"), rank, peak)
        if ((uint64_t)json_integer_value(peak) > self.record.peak_memory_bytes)
            self.record.peak_memory_bytes = (uint64_t)json_integer_value(peak);
    const json_t *error = json_object_get(report, "prediction_error"), *phases = json_object_get(report, "phases");
    if (error)
        self.record.prediction_error = json_number_value(error);
    if (phases) {
        take_time();
        self.phase_seconds = NULL;
        self.record.capture_seconds = json_number_value(json_object_get(phases, "capture"));
        self.record.calibrate_seconds = json_number_value(json_object_get(phases, "calibrate"));
        self.record.emulate_seconds = json_number_value(json_object_get(phases, "emulate"));
    }
    json_decref(report);
}

/* The child ends when it has stored the last line. Its end may have been taken by SIGCHLD's handler before. */
static void await_store(void)
{
    int64_t until = clock_now_ns() + END_SECONDS * NSEC_PER_SEC;
    int status = 0;
    while (self.store && waitpid(self.store, &status, WNOHANG) == 0) {
        if (clock_now_ns() > until) {
            kill(self.store, SIGKILL);
            waitpid(self.store, &status, 0);
            break;
        }
        clock_sleep_until_ns(clock_now_ns() + NSEC_PER_SEC / 200);
    }
    if (self.store)
        accounting_reaped(self.store, status);
}

void accounting_none(void)
{
    self.phase = "none";
}

void accounting_end(struct daemon *d, int exit_code)
{
    bool ours = d->failure.code && d->program_exit <= 0;
    if (self.timer)
        event_free(self.timer);
    self.certain |= (d->graph && d->graph->ncomms) || (ours && d->failure.code != PRISM_EXIT_INTERRUPTED);
    self.record.state = self.certain && (!self.phase || strcmp(self.phase, "none")) ? "ended" : "none";
    self.phase = NULL;
    self.record.exit_code = exit_code;
    self.record.exit_origin = ours ? "prism" : "program";
    publish(d);
    if (self.pipe >= 0)
        close(self.pipe);
    await_store();
    free(self.sandbox);
    memset(&self, 0, sizeof self);
    self.pipe = -1;
}
