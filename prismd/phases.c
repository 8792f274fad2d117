#include "prismd/phases.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "prismd/report/accounting.h"
#include "prismd/assistants/assist.h"
#include "prismd/predict/durations.h"
#include "prismd/capture/enough.h"
#include "prismd/folding/folding.h"
#include "prismd/folding/folding_spread.h"
#include "prismd/capture/hang.h"
#include "prismd/capture/record.h"
#include "prismd/link/link.h"
#include "prismd/local.h"
#include "prismd/manifest.h"
#include "prismd/network.h"
#include "prismd/phase_message.h"
#include "prismd/pmix/pmix.h"
#include "prismd/predict/predict.h"
#include "prismd/report/report.h"
#include "prismd/switching/switching.h"
#include "prismd/report/result.h"
#include "prismd/ranks/scratch.h"
#include "prismd/replay/slices.h"
#include "prismd/store.h"
#include "prismd/ranks/tasks.h"
#include "prismd/trace_folder.h"
#include "trace/trace.h"

static struct {
    uint32_t done;       /* nodes that have reported */
    struct results *into;
    bool quit;
    int exit_code;
    struct trace_manifest manifest;
    struct report report;
    struct tasks tasks; /* of all nodes */
    int task_exit;      /* of a step that was none to emulate */
} lead;

/* --- all nodes --- */

static void report_local(struct daemon *d, const struct bytes *result)
{
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)d->failure.code);
    tasks_put(d, &b);
    bytes_put(&b, result->data, result->len);
    link_send(d, 0, LINK_DONE, &b);
    bytes_free(&b);
    if (link_coordinator_lost(d)) /* nobody will say quit */
        event_base_loopbreak(d->base);
}

/* A follower takes over what the message says; the coordinator knows it. */
static int prepare_phase(struct daemon *d, struct phase_message *m, struct prism_error *err)
{
    char *trace = d->conf->trace;
    d->conf->trace = m->trace;
    m->trace = trace;
    store_destroy(d->store);
    d->store = store_remote(d, m->host, m->port);
    d->failure = (struct prism_error){0};
    if (m->kind == PHASE_CAPTURE)
        graph_destroy(d->graph), d->graph = NULL;
    else if (m->reload)
        return trace_folder_load_graph(d, err) || folding_follow(d->conf, err) || network_load(d, err) ? -1 : 0;
    return 0;
}

static void on_phase(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct phase_message m;
    struct prism_error err = {0};
    (void)from;
    if (d->ops || phase_message_take(&m, b, d->conf->world)) {
        bool between = !d->ops;
        daemon_fail(d, PRISM_EXIT_DAEMON, "malformed message from the first node");
        if (between)
            local_refuse(d, report_local);
        return;
    }
    d->trace_nodes = m.trace_nodes;
    d->trace_payload = m.trace_payload;
    d->conf->payload = m.payload;
    if (*m.refused)
        prism_error_set(&d->refusal, m.refusal, "%s", m.refused);
    d->refusal.code = m.refusal;
    int rc = d->conf->node ? prepare_phase(d, &m, &err) : 0;
    if (!rc && m.kind != PHASE_CAPTURE && !d->graph)
        rc = prism_error_set(&err, PRISM_EXIT_DAEMON, "malformed message from the first node: no graph has been read");
    if (rc) {
        daemon_fail(d, err.code, "%s", err.text);
        local_refuse(d, report_local);
    } else {
        local_begin(d, &(struct local_phase){m.kind, m.transport, m.live, m.nlive}, report_local);
    }
    phase_message_clear(&m);
}

static void on_quit(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    lead.exit_code = (int)bytes_get_u32(b);
    lead.quit = true;
    event_base_loopbreak(d->base);
}

/* Followers do as they are told until the coordinator says quit (or is lost). */
static int follow(struct daemon *d)
{
    while (!lead.quit) {
        local_handle_events(d);
        if (link_coordinator_lost(d) && !d->ops)
            break;
    }
    if (lead.quit)
        return lead.exit_code;
    if (link_speaks(d)) {
        link_tell(d);
        /* Followers that see this one leave before they have looked for themselves would say it again. */
        struct bytes nothing = {0};
        link_broadcast(d, LINK_SPOKEN, &nothing);
        link_flush(d, 1000);
    }
    return d->program_exit > 0 ? d->program_exit : d->failure.code;
}

/* --- the coordinator --- */

static void on_done(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct prism_error err = {0};
    int code = (int)bytes_get_u32(b);
    tasks_take(&lead.tasks, b);
    if (!code) {
        int rc = d->phase == PHASE_CAPTURE ? result_take_capture(d, from, b, &err)
                                           : result_take_emulate(d, from, b, lead.into, &err);
        if (rc)
            daemon_fail(d, err.code, "%s", err.text);
    } else if (d->phase == PHASE_CAPTURE && hang_keeps_graph(d)) {
        result_take_capture(d, from, b, &err); /* as much of it as there is */
    }
    if (++lead.done + link_lost(d) >= d->conf->nodes)
        event_base_loopbreak(d->base);
}

/* One phase on all nodes; returns 0, or -1 with d->failure set. */
static int run_phase(struct daemon *d, enum msg_phase kind, enum msg_transport transport, const uint32_t *live,
                     uint32_t nlive, bool reload, struct results *into)
{
    struct prism_error err = {0};
    lead.done = 0;
    lead.into = into;
    lead.tasks = (struct tasks){0};
    if (scratch_begin(d, kind, &err))
        return daemon_fail(d, err.code, "%s", err.text);
    pthread_mutex_lock(&d->lock);
    store_destroy(d->store);
    d->store = store_create(d, &err);
    if (!d->store || (kind != PHASE_CAPTURE && trace_folder_replay_store(d, live, nlive, &err))) {
        pthread_mutex_unlock(&d->lock);
        return daemon_fail(d, err.code, "%s", err.text);
    }
    pmix_name_phase(d);
    struct bytes b = {0};
    struct phase_message m = {.kind = kind,
                              .transport = transport,
                              .host = (char *)(uintptr_t)store_host(d->store),
                              .port = store_port(d->store),
                              .reload = reload,
                              .refusal = kind == PHASE_CAPTURE ? d->refusal.code : 0,
                              .refused = d->refusal.text,
                              .trace = d->conf->trace,
                              .trace_nodes = kind == PHASE_CAPTURE ? d->conf->nodes : lead.manifest.nodes,
                              .trace_payload = lead.manifest.payload ? lead.manifest.payload : TRACE_PAYLOAD_FULL,
                              .payload = d->conf->payload,
                              .live = (uint32_t *)(uintptr_t)live,
                              .nlive = nlive};
    phase_message_put(&m, &b);
    link_announce(d, LINK_PHASE, &b);
    bytes_free(&b);
    pthread_mutex_unlock(&d->lock);
    while (lead.done + link_lost(d) < d->conf->nodes || d->ops)
        if (local_handle_events(d) < 0)
            break;
    if (kind != PHASE_CAPTURE)
        scratch_end(d, kind);
    return d->failure.code ? -1 : 0;
}

static uint64_t count_groups(const struct graph *g)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < g->world; r++)
        for (uint32_t i = 0; i < g->ranks[r].nnodes; i++)
            n += g->ranks[r].nodes[i].kind == GRAPH_COMM;
    return n;
}

/* Groups of one rank communicate without gates. */
static bool communicates(const struct graph *g)
{
    return count_groups(g) || g->ncomms;
}

static int finish_capture(struct daemon *d, struct prism_error *err)
{
    if (!communicates(d->graph))
        return prism_error_set(err, PRISM_EXIT_NO_NCCL,
                               "%s ended without calling NCCL: there is nothing to emulate (is it statically linked, or does it "
                               "communicate by other means?)",
                               d->conf->argv[0]);
    graph_share(d->graph); /* this node's own ranks: the others' came so */
    if (folding_expand(d, err))
        return -1;
    int found = enough_reached() ? graph_check_truncated(d->graph, err) : graph_check(d->graph, err);
    if (found || (found = record_find_iterations(d, enough_reached() ? d->conf->iterations : 0, err)) < 0)
        return -1;
    if (enough_reached() && graph_truncate(d->graph, d->conf->iterations))
        return prism_error_set(err, PRISM_EXIT_TRACE,
                               "capture was ended after %u iterations (--prism-iterations), but all ranks together show %u: let the program itself end after a few",
                               d->conf->iterations, d->graph->ranks[0].niterations);
    graph_find_classes(d->graph);
    folding_classes(d);
    lead.manifest.complete = true;
    lead.manifest.iterations = d->graph->ranks[0].niterations;
    if (trace_folder_write_graph(d, err) || trace_folder_write_store(d, err) || pmix_save(d->conf->trace, err) ||
        switching_save(d->conf->trace, err) || folding_spread_save(d->conf, err) || trace_manifest_write(d->conf->trace, &lead.manifest, err))
        return -1;
    if (d->conf->iteration_range && !found)
        log_warn("PRISM_ITERATION_RANGE=%s: ranks have no such NVTX ranges that are one piece of work on all of them; iterations are what repeats",
                 d->conf->iteration_range);
    log_info("captured %u ranks: %llu groups of operations, %u iterations%s, %u classes of ranks", d->graph->world, (unsigned long long)count_groups(d->graph),
             lead.manifest.iterations, found ? " (by the program's NVTX ranges)" : "", d->graph->nclasses);
    return 0;
}

/* --- steps that are no emulation (tasks.h) --- */

/* Capture has ended without a failure: was it one? */
static bool was_none(struct daemon *d, struct prism_error *err)
{
    if (!d->conf->is_step || communicates(d->graph))
        return false;
    char path[PATH_MAX];
    if (tasks_finish(d, &lead.tasks, err))
        daemon_fail(d, err->code, "%s", err->text);
    path_in_trace(d, "trace.json", path);
    unlink(path);
    path_in_trace(d, "logs", path);
    rmdir(path);
    trace_folder_remove_payloads(d);
    lead.task_exit = lead.tasks.exit;
    return true;
}

/* 0, -1 with d->failure set, or 1: the step was none to emulate, and is over. */
static int capture(struct daemon *d)
{
    struct prism_error err = {0};
    int64_t began = clock_now_ns();
    uint32_t n, *all = folding_live(d->conf, &n);
    char path[PATH_MAX];
    path_in_trace(d, "trace.json", path);
    bool another = !access(path, F_OK);
    manifest_fill(d->conf, &lead.manifest);
    /* Incomplete until it is complete: whatever happens, the folder never looks whole before. */
    int rc = trace_manifest_write(d->conf->trace, &lead.manifest, &err);
    if (rc)
        daemon_fail(d, err.code, "%s", err.text);
    else if (another) /* other files of the same names are not ours */
        trace_forget(d->conf->trace);
    switching_begin();
    folding_tell_capture(d->conf, n);
    if (!rc)
        rc = run_phase(d, PHASE_CAPTURE, TRANSPORT_PACED, all, n, false, NULL);
    free(all);
    bool none = !rc && was_none(d, &err);
    if (none && scratch_keep(d, &err))
        daemon_fail(d, err.code, "%s", err.text);
    scratch_end(d, PHASE_CAPTURE);
    if (!rc && !none && lead.tasks.failed)
        rc = daemon_fail(d, PRISM_EXIT_RANK, "%u processes ended with exit code %d before they used CUDA, others use NCCL",
                         lead.tasks.failed, d->program_exit = lead.tasks.exit);
    if (!rc && !none && finish_capture(d, &err))
        rc = daemon_fail(d, err.code, "%s", err.text);
    if (rc) {
        hang_salvage(d);
        trace_folder_remove_payloads(d);
    }
    tasks_put_back(d);
    if (none)
        accounting_none();
    if (none && !d->failure.code)
        return 1;
    lead.report.capture_seconds = (double)(clock_now_ns() - began) / 1e9;
    return rc;
}

/* With assistants asked for, and a device left for a rank beside them, slices communicate for real. */
static int run_slices(struct daemon *d, const struct slices *s, enum msg_transport transport, struct results *r)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->n && !rc; i++) {
        log_info("slice %u of %u: ranks %u to %u%s", i + 1, s->n, s->ranks[s->first[i]], s->ranks[s->first[i + 1] - 1],
                 transport == TRANSPORT_NCCL ? ", real communication" : "");
        rc = run_phase(d, PHASE_CALIBRATE, transport, s->ranks + s->first[i], s->first[i + 1] - s->first[i], i == 0, r);
    }
    return rc;
}

/* Files are about to be replaced: whatever happens, the folder never looks calibrated, or damaged, before they are. */
static int no_longer_calibrated(struct daemon *d, struct prism_error *err)
{
    bool was = lead.manifest.calibrated;
    lead.manifest.calibrated = false;
    return was ? trace_manifest_write(d->conf->trace, &lead.manifest, err) : 0;
}

/* Where there is none, followers read what is measured here in the trace's folder. */
static int find_network(struct daemon *d, struct prism_error *err)
{
    return !network_load(d, err) ? 0 : no_longer_calibrated(d, err) || network_measure(d, err) ? -1 : 0;
}

/* What an earlier calibration left is whole until this one has all that it needs. */
static int keep_calibration(struct daemon *d, const struct durations *durations, struct prism_error *err)
{
    if (no_longer_calibrated(d, err))
        return -1;
    trace_folder_forget_durations(d);
    if (network_keep(d, err) || trace_folder_write_graph(d, err) || trace_folder_keep_durations(d, durations, err))
        return -1;
    lead.manifest.calibrated = true;
    return trace_manifest_write(d->conf->trace, &lead.manifest, err);
}

static int calibrate(struct daemon *d)
{
    struct prism_error err = {0};
    struct slices s = {0};
    struct results r = {0};
    int64_t began = clock_now_ns();
    if (find_network(d, &err))
        return daemon_fail(d, err.code, "%s", err.text);
    uint32_t beside = assist_slice(d->conf);
    slices_plan(&s, d->graph, d->conf->fold, beside ? beside : d->conf->ndevices * d->conf->nodes, d->conf->slices, d->conf->sandbox,
                d->conf->nsandbox);
    log_info("calibrating %u of %u ranks in %u slice%s", s.first[s.n], d->conf->world, s.n, s.n == 1 ? "" : "s");
    lead.report.calibrated_by = beside ? TRANSPORT_NCCL : TRANSPORT_PACED;
    int rc = run_slices(d, &s, lead.report.calibrated_by, &r);
    lead.report.slices = s.n;
    lead.report.calibrated_ranks = s.first[s.n];
    slices_clear(&s);
    if (!rc && keep_calibration(d, r.durations, &err))
        rc = daemon_fail(d, err.code, "%s", err.text);
    results_clear(&r);
    lead.report.calibrate_seconds = (double)(clock_now_ns() - began) / 1e9;
    return rc;
}

static int emulate(struct daemon *d)
{
    struct prism_error err = {0};
    struct results r = {0};
    int64_t began = clock_now_ns();
    enum msg_transport transport = d->conf->assistants > 0 ? TRANSPORT_NCCL : TRANSPORT_PACED;
    if (network_load(d, &err))
        return daemon_fail(d, err.code, "%s", err.text);
    log_info("emulating: %u rank%s of %u run", d->conf->nsandbox, d->conf->nsandbox > 1 ? "s" : "", d->conf->world);
    int rc = run_phase(d, PHASE_EMULATE, transport, d->conf->sandbox, d->conf->nsandbox, true, &r);
    lead.report.emulate_seconds = (double)(clock_now_ns() - began) / 1e9;
    lead.report.transport = transport;
    results_sort(&r);
    struct prediction predicted = {0};
    struct durations *measured = trace_folder_load_durations(d, NULL);
    predict(d->graph, d->network, measured, d->conf->sandbox[0], &predicted);
    lead.report.measured_durations = durations_count(measured);
    durations_destroy(measured);
    if (report_write(d, &lead.manifest, &lead.report, &r, &predicted, &err))
        rc = daemon_fail(d, err.code, "%s", err.text);
    prediction_clear(&predicted);
    results_clear(&r);
    return rc;
}

static int look_at_trace(struct daemon *d);

/* A job's second program gets a trace of its own, where the user has not named one. */
static int take_another(struct daemon *d)
{
    char *id = trace_program_id(d->conf->argv), *path;
    if (asprintf(&path, "%s-%.8s-%u", d->conf->trace, id, d->conf->world) < 0)
        abort();
    free(id);
    free(d->conf->trace);
    d->conf->trace = path;
    d->conf->trace_is_default = false;
    return look_at_trace(d);
}

/* A step that may turn out to be none to emulate runs until it uses NCCL, and is told then. */
static int postpone(struct daemon *d, const struct prism_error *err)
{
    if (!d->conf->is_step)
        return daemon_fail(d, err->code, "%s", err->text);
    d->refusal = *err;
    lead.manifest.complete = lead.manifest.calibrated = false;
    tasks_set_aside(d);
    return 0;
}

/* What the trace has already; an absent or foreign trace is an error only for the phases that need one, and for all but a capture by name
 * one that cannot be read: it may be of a later Prism, or worth saving. */
static int look_at_trace(struct daemon *d)
{
    struct prism_error err = {0};
    char *id = trace_program_id(d->conf->argv);
    int rc = trace_manifest_read(d->conf->trace, &lead.manifest, &err);
    bool unread = rc;
    bool interrupted = !rc && !lead.manifest.complete && d->conf->phase == CONF_AUTO;
    if (!rc)
        rc = trace_manifest_match(&lead.manifest, d->conf->trace, id, d->conf->world, &err);
    free(id);
    bool fresh = rc && access(d->conf->trace, F_OK);
    char path[PATH_MAX];
    path_in_trace(d, "trace.json", path);
    bool unstarted = rc && access(path, F_OK);
    if (rc && d->conf->trace_is_default && !fresh && !unstarted && manifest_is_anothers(d->conf, &lead.manifest))
        return take_another(d);
    if (rc && (d->conf->phase == CONF_CAPTURE || (d->conf->phase == CONF_AUTO && (fresh || unstarted || (!unread && !lead.manifest.complete))))) {
        if (interrupted)
            log_info("an earlier capture into %s did not come to its end: it starts again", d->conf->trace);
        return 0;
    }
    if (rc)
        return postpone(d, &err);
    if (d->conf->phase == CONF_CAPTURE)
        lead.manifest.complete = lead.manifest.calibrated = false;
    else if (trace_folder_open(d, &lead.manifest, &err))
        return daemon_fail(d, err.code, "%s", err.text);
    return 0;
}

static int make_trace_folder(struct daemon *d)
{
    struct prism_error err = {0};
    char logs[PATH_MAX];
    path_in_trace(d, "logs", logs);
    if (file_make_dirs(logs, 0755, &err) || access(d->conf->trace, W_OK))
        return daemon_fail(d, PRISM_EXIT_TRACE, "cannot write to the trace folder %s: %s; give another with --prism-trace",
                           d->conf->trace, err.code ? err.text : strerror(errno));
    return 0;
}

static int run_all(struct daemon *d)
{
    const struct conf *c = d->conf;
    if (look_at_trace(d) || make_trace_folder(d))
        return -1;
    struct prism_error err = {0};
    if (c->phase != CONF_CAPTURE && !d->refusal.code && network_check(d, &err) && postpone(d, &err))
        return -1;
    bool have = lead.manifest.complete && c->phase != CONF_CAPTURE;
    if (have && (folding_agree(d->conf, &lead.manifest, &err) || trace_payload_agree(&lead.manifest, c->trace, &d->conf->payload, &err)))
        return daemon_fail(d, err.code, "%s", err.text);
    if (!d->conf->payload)
        d->conf->payload = TRACE_PAYLOAD_FULL;
    if (assist_check(c, have ? &lead.manifest : NULL, &err))
        return daemon_fail(d, err.code, "%s", err.text);
    if (!have)
        accounting_phase(d, "capture", NULL);
    int captured = have ? 0 : capture(d);
    if (captured)
        return captured < 0 ? -1 : 0;
    if (c->phase == CONF_CAPTURE)
        return 0;
    bool calibrating = (!lead.manifest.calibrated || c->phase == CONF_CALIBRATE) && c->phase != CONF_EMULATE;
    if (calibrating)
        accounting_phase(d, "calibrate", lead.manifest.trace_id);
    if (calibrating && calibrate(d))
        return -1;
    if (c->phase == CONF_CALIBRATE)
        return 0;
    if (!lead.manifest.calibrated)
        return daemon_fail(d, PRISM_EXIT_TRACE, "the trace %s is not calibrated; run --prism-phase=calibrate (or auto) first",
                           c->trace);
    accounting_phase(d, "emulate", lead.manifest.trace_id);
    int rc = emulate(d);
    accounting_report(d);
    return rc;
}

static int exit_code_of(struct daemon *d, int rc)
{
    if (!rc)
        return lead.task_exit;
    if (d->failure.code != PRISM_EXIT_INTERRUPTED || d->program_exit < 128)
        log_error("%s", d->failure.text);
    return d->program_exit > 0 ? d->program_exit : d->failure.code;
}

int phases_run(struct daemon *d)
{
    pmix_init();
    link_on(LINK_PHASE, on_phase);
    link_on(LINK_DONE, on_done);
    link_on(LINK_QUIT, on_quit);
    int code;
    if (d->conf->node) {
        code = follow(d);
    } else {
        accounting_begin(d);
        code = exit_code_of(d, run_all(d));
        accounting_end(d, code);
        struct bytes b = {0};
        bytes_put_u32(&b, (uint32_t)code);
        link_broadcast(d, LINK_QUIT, &b);
        bytes_free(&b);
        link_flush(d, 2000);
    }
    store_destroy(d->store);
    d->store = NULL;
    graph_destroy(d->graph);
    d->graph = NULL;
    trace_manifest_clear(&lead.manifest);
    return code;
}
