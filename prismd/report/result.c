#include "prismd/report/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "prismd/assistants/assist.h"
#include "prismd/assistants/ballast.h"
#include "prismd/predict/durations.h"
#include "prismd/replay/emulate.h"
#include "prismd/folding/folding_spread.h"
#include "prismd/capture/hang.h"
#include "prismd/capture/record.h"
#include "prismd/place.h"
#include "prismd/switching/switching.h"

void result_put_capture(struct daemon *d, struct bytes *out)
{
    switching_put(out);
    folding_spread_put(out);
    graph_marks_put(d->conf->node ? record_marks() : NULL, out);
    /* The coordinator's own part of the graph is in place already. */
    if (!d->conf->node || (d->failure.code && !hang_keeps_graph(d)))
        return;
    struct bytes graph = {0};
    graph_share(d->graph); /* equal ranks are written as fast as one */
    graph_write(d->graph, &graph); /* clears what it writes to */
    bytes_put(out, graph.data, graph.len);
    bytes_free(&graph);
}

/* A node's graph holds only its own ranks' nodes: they move into the coordinator's. */
static void adopt_rank(struct graph_rank *to, struct graph_rank *from)
{
    struct graph_rank empty = {0};
    graph_rank_clear(to);
    *to = *from;
    *from = empty;
}

/* Of the same job: the coordinator has made every communicator that a node knows. */
static bool is_part_of(const struct graph *part, const struct graph *g)
{
    if (part->world != g->world || part->ncomms > g->ncomms)
        return false;
    for (uint32_t i = 0; i < part->ncomms; i++)
        if (part->comms[i].size != g->comms[i].size ||
            memcmp(part->comms[i].ranks, g->comms[i].ranks, g->comms[i].size * sizeof *g->comms[i].ranks))
            return false;
    return true;
}

/* Of the node's own ranks. */
static int take_marks(const struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct graph_marks *part = graph_marks_take(b, d->conf->world);
    for (uint32_t r = 0; part && record_marks() && from != d->conf->node && r < d->conf->world; r++)
        if (place_capture_node(d->conf, r) == from)
            graph_marks_copy(record_marks(), r, part, r);
    graph_marks_destroy(part);
    return part ? 0 : -1;
}

int result_take_capture(struct daemon *d, uint32_t from, struct bytes_reader *b, struct prism_error *err)
{
    switching_take(b);
    folding_spread_take(b);
    if (take_marks(d, from, b))
        return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u: malformed result (marks)", from);
    if (from == d->conf->node || (d->failure.code && !hang_keeps_graph(d)))
        return 0;
    struct graph *part = graph_read(b->data + b->pos, b->len - b->pos, err);
    if (!part)
        return -1;
    if (!is_part_of(part, d->graph)) {
        graph_destroy(part);
        return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u: malformed result (another job's graph)", from);
    }
    for (uint32_t r = 0; r < d->conf->world; r++)
        if (place_capture_node(d->conf, r) == from)
            adopt_rank(&d->graph->ranks[r], &part->ranks[r]);
    graph_destroy(part);
    return 0;
}

static int exit_code(const struct rank *r)
{
    return WIFEXITED(r->exit_status) ? WEXITSTATUS(r->exit_status) : 128 + WTERMSIG(r->exit_status);
}

static void put_rank(struct daemon *d, const struct rank *r, struct bytes *out)
{
    struct emulate_result e = emulate_rank_result(d, r->number);
    bytes_put_u32(out, r->number);
    bytes_put_u64(out, r->peak_bytes);
    bytes_put_u64(out, ballast_bytes(r->number));
    bytes_put_u32(out, (uint32_t)exit_code(r));
    bytes_put_f64(out, e.behind_seconds);
    bytes_put_u32(out, e.iterations);
    for (uint32_t i = 0; i < e.iterations; i++)
        bytes_put_f64(out, e.seconds[i]);
}

static void put_works(struct daemon *d, uint32_t rank, struct bytes *out)
{
    const struct graph_rank *g = &d->graph->ranks[rank];
    bool measured = d->phase == PHASE_CALIBRATE && g->device_work && g->host_work;
    bytes_put_u32(out, measured ? g->nnodes : 0);
    if (!measured)
        return;
    bytes_put(out, g->device_work, g->nnodes * sizeof(float));
    bytes_put(out, g->host_work, g->nnodes * sizeof(float));
}

void result_put_emulate(struct daemon *d, struct bytes *out)
{
    uint32_t n = 0, npacing;
    const double *pacing = emulate_pacing_us(&npacing);
    struct bytes ranks = {0};
    uint32_t *numbers = malloc((d->conf->world + 1u) * sizeof *numbers);
    if (!numbers)
        abort();
    for (uint32_t i = 0; i < d->conf->world; i++)
        if (d->ranks[i]) {
            put_rank(d, d->ranks[i], &ranks);
            numbers[n++] = i;
        }
    bytes_put_u32(out, n);
    bytes_put(out, ranks.data, ranks.len);
    bytes_free(&ranks);
    struct delivery_counts delivered = emulate_delivery_counts();
    bytes_put_u64(out, delivered.size_changes);
    bytes_put_u32(out, emulate_first_change());
    bytes_put_u64(out, delivered.ahead.hits);
    bytes_put_u64(out, delivered.ahead.misses);
    bytes_put_u64(out, delivered.bytes);
    bytes_put_u32(out, npacing);
    bytes_put(out, pacing, npacing * sizeof *pacing);
    struct assist_result assist = assist_result(d);
    bytes_put(out, &assist, sizeof assist); /* both ends are one build */
    durations_put(assist_durations(), out);
    emulate_end(d);
    for (uint32_t i = 0; i < n; i++)
        put_works(d, numbers[i], out);
    free(numbers);
}

static double take_number(struct bytes_reader *b)
{
    double x = bytes_get_f64(b);
    b->bad |= !isfinite(x);
    return x;
}

static void take_rank(struct bytes_reader *b, uint32_t world, struct rank_result *r)
{
    r->rank = bytes_get_u32(b);
    r->peak_bytes = bytes_get_u64(b);
    r->ballast_bytes = bytes_get_u64(b);
    r->exit_code = (int)bytes_get_u32(b);
    r->behind_seconds = take_number(b);
    r->iterations = bytes_get_u32(b);
    if (b->bad || r->rank >= world || r->iterations > (b->len - b->pos) / 8) {
        b->bad = true;
        *r = (struct rank_result){0};
        return;
    }
    r->seconds = malloc((r->iterations + 1u) * sizeof *r->seconds);
    if (!r->seconds)
        abort();
    for (uint32_t i = 0; i < r->iterations; i++)
        r->seconds[i] = take_number(b);
}

static bool are_works(const uint8_t *data, uint32_t n)
{
    float work;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&work, data + i * sizeof work, sizeof work);
        if (!(work >= 0 && work <= GRAPH_WORK_MAX))
            return false;
    }
    return true;
}

static void take_works(struct daemon *d, uint32_t from, uint32_t rank, struct bytes_reader *b)
{
    uint32_t nnodes = bytes_get_u32(b);
    const void *device = bytes_get(b, nnodes * sizeof(float));
    const void *host = bytes_get(b, nnodes * sizeof(float));
    if (!nnodes || !device || !host || from == d->conf->node)
        return;
    if (nnodes != d->graph->ranks[rank].nnodes || !are_works(device, nnodes) || !are_works(host, nnodes)) {
        b->bad = true;
        return;
    }
    graph_alloc_works(d->graph, rank);
    memcpy(d->graph->ranks[rank].device_work, device, nnodes * sizeof(float));
    memcpy(d->graph->ranks[rank].host_work, host, nnodes * sizeof(float));
}

static void take_assist(struct bytes_reader *b, struct assist_result *sum)
{
    struct assist_result a;
    const void *data = bytes_get(b, sizeof a);
    if (!data)
        return;
    memcpy(&a, data, sizeof a);
    sum->armed_ahead += a.armed_ahead;
    sum->counts.runs += a.counts.runs;
    sum->counts.hits += a.counts.hits;
    sum->counts.kept += a.counts.kept;
    sum->counts.late += a.counts.late;
    sum->counts.misses += a.counts.misses;
    sum->counts.payload_bytes += a.counts.payload_bytes;
    for (int op = 0; op < PRISM_OP_END; op++) {
        sum->use.ops[op].count += a.use.ops[op].count;
        sum->use.ops[op].bytes += a.use.ops[op].bytes;
        sum->use.ops[op].full += a.use.ops[op].full;
    }
}

int result_take_emulate(struct daemon *d, uint32_t from, struct bytes_reader *b, struct results *into,
                        struct prism_error *err)
{
    uint32_t n = bytes_get_u32(b), first = into->nranks;
    if (b->bad || n > d->conf->world)
        return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u: malformed result", from);
    into->ranks = realloc(into->ranks, (into->nranks + n + 1u) * sizeof *into->ranks);
    if (!into->ranks)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        struct rank_result r = {0};
        take_rank(b, d->conf->world, &r);
        into->ranks[into->nranks++] = r;
    }
    into->size_changes += bytes_get_u64(b);
    uint32_t change = bytes_get_u32(b);
    if (change != UINT32_MAX && (!into->changed || change < into->first_change))
        into->first_change = change;
    into->changed |= change != UINT32_MAX;
    into->prefetch_hits += bytes_get_u64(b);
    into->prefetch_misses += bytes_get_u64(b);
    into->payload_bytes += bytes_get_u64(b);
    uint32_t np = bytes_get_u32(b);
    if (!b->bad && np <= (b->len - b->pos) / 8) {
        into->pacing_us = realloc(into->pacing_us, ((size_t)into->npacing + np + 1) * sizeof *into->pacing_us);
        if (!into->pacing_us)
            abort();
        for (uint32_t i = 0; i < np; i++)
            into->pacing_us[into->npacing++] = take_number(b);
    }
    take_assist(b, &into->assist);
    if (!into->durations)
        into->durations = durations_create();
    if (durations_take(into->durations, b))
        return prism_error_set(err, PRISM_EXIT_DAEMON, "node %u: malformed result", from);
    for (uint32_t i = first; i < into->nranks; i++)
        take_works(d, from, into->ranks[i].rank, b);
    return b->bad ? prism_error_set(err, PRISM_EXIT_DAEMON, "node %u: malformed result", from) : 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct rank_result *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

void results_sort(struct results *r)
{
    if (r->nranks)
        qsort(r->ranks, r->nranks, sizeof *r->ranks, by_rank);
}

void results_clear(struct results *r)
{
    for (uint32_t i = 0; i < r->nranks; i++)
        free(r->ranks[i].seconds);
    free(r->ranks);
    free(r->pacing_us);
    durations_destroy(r->durations);
    *r = (struct results){0};
}
