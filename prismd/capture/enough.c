#include "prismd/capture/enough.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/capture/record.h"
#include "prismd/replay/emulate.h"
#include "prismd/replay/measured.h"
#include "prismd/link/link.h"
#include "prismd/local.h"
#include "prismd/store.h"

#define LOOK_NS   (NSEC_PER_SEC / 2)
#define BUDGET_NS (NSEC_PER_SEC / 50) /* of one look: the lock is held meanwhile */
#define LEAST     3u
#define STILL_NS  (5 * NSEC_PER_SEC) /* in calibration, and two iterations: who does not move for so long stands still */

struct seen { /* of a rank */
    uint64_t sum; /* another one when it has moved */
    int64_t since_ns;
};

static struct {
    bool looks; /* the phase may end early */
    struct seen *seen; /* owned; calibration: by world rank */
    int64_t next_ns;
    uint32_t at;     /* rank that is looked at next */
    uint32_t in_row; /* ranks, one after the other, that had enough */
    bool told, reached;
    uint32_t nodes; /* coordinator: that have told */
} enough;

/* Nodes of the rank whose operations are over: their payloads are kept. */
static uint32_t nodes_over(const struct rank *r)
{
    uint32_t n = r->nodes;
    if (r->assembling && r->assembling->node < n)
        n = r->assembling->node;
    for (const struct group *g = r->groups; g; g = g->next_of_rank)
        if (g->node < n)
            n = g->node;
    return n;
}

/* Calibration: how many iterations the rank has done behind the recorded ones; -1: it is not there yet. */
static int64_t behind_recorded(const struct daemon *d, const struct rank *r)
{
    struct emulate_result e = emulate_rank_result(d, r->number);
    int64_t n = (int64_t)e.iterations - d->graph->ranks[r->number].niterations;
    return !e.has_iterations ? 0 : n < 0 ? -1 : n;
}

static bool has_measured(const struct daemon *d, const struct rank *r)
{
    struct emulate_result e = emulate_rank_result(d, r->number);
    int64_t n = behind_recorded(d, r);
    return !e.has_iterations || (n > 0 && measured_suffices(e.seconds + (e.iterations - n), (uint32_t)n));
}

static bool stands_still(const struct daemon *d, const struct rank *r)
{
    struct emulate_result e = emulate_rank_result(d, r->number);
    double iteration = e.iterations ? e.seconds[e.iterations - 1] : 0;
    return clock_now_ns() - enough.seen[r->number].since_ns > STILL_NS + (int64_t)(2 * iteration * NSEC_PER_SEC);
}

static bool has_enough(const struct daemon *d, const struct rank *r)
{
    if (r->state == RANK_ENDED)
        return true; /* it waits for nobody */
    uint32_t wanted = d->conf->iterations + 1 > LEAST ? d->conf->iterations + 1 : LEAST;
    if (d->phase == PHASE_CAPTURE)
        return record_count_iterations(d, r->number, nodes_over(r)) >= wanted;
    return has_measured(d, r) || (behind_recorded(d, r) >= 0 && stands_still(d, r));
}

static void see_who_moves(const struct daemon *d, int64_t now)
{
    for (uint32_t i = 0; enough.seen && i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        uint64_t sum = r ? r->nodes + (uint64_t)r->running_since_ns : 0;
        for (const struct group *g = r ? r->groups : NULL; g; g = g->next_of_rank)
            sum += g->arrived;
        if (r && sum != enough.seen[i].sum)
            enough.seen[i] = (struct seen){sum, now};
    }
}

/* Some ranks stood still: the first whose reason is known here, else the first. */
static void tell_still(const struct daemon *d)
{
    char key[128];
    const struct rank *found = NULL;
    const char *over = NULL;
    bool waits = false;
    for (uint32_t i = 0; i < d->conf->world && !over && !waits; i++) {
        const struct rank *r = d->ranks[i];
        if (!r || r->state == RANK_ENDED || has_measured(d, r))
            continue;
        over = emulate_rank_result(d, i).over;
        waits = !over && store_has_waiting(d->store, i, key, sizeof key);
        found = over || waits || !found ? r : found;
    }
    if (found)
        log_warn("slice: rank %u does not go on %lld iterations behind the trace's (%s%s%s): what was measured until then is taken", found->number,
                 (long long)behind_recorded(d, found), waits ? "it waits in the c10d store for " : over ? over : "it waits for others, or its host does something else",
                 waits ? key : "", waits ? ", which was not recorded" : "");
}

/* Goes round the ranks until one has not enough, and begins with that one the next time: a program's first micro-batches
 * may look like iterations for a while, but not to all ranks in a row. */
static bool all_have_enough(const struct daemon *d)
{
    int64_t until = clock_now_ns() + BUDGET_NS;
    uint32_t here = 0;
    for (uint32_t i = 0; i < d->conf->world; i++)
        here += d->ranks[i] != NULL;
    while (enough.in_row < here && clock_now_ns() < until) {
        const struct rank *r = d->ranks[enough.at];
        if (r && !has_enough(d, r)) {
            enough.in_row = 0;
            return false;
        }
        enough.in_row += r != NULL;
        enough.at = (enough.at + 1) % d->conf->world;
    }
    return enough.in_row >= here;
}

static void on_reached(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    if (bytes_get_u32(b) != (uint32_t)d->phase || ++enough.nodes < d->conf->nodes)
        return;
    struct bytes none = {0};
    bytes_put_u32(&none, (uint32_t)d->phase);
    link_announce(d, LINK_ENOUGH, &none);
    bytes_free(&none);
}

static void on_enough(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    if (bytes_get_u32(b) != (uint32_t)d->phase || d->stopping || !d->ops)
        return;
    enough.reached = true;
    if (!d->conf->node && d->phase == PHASE_CAPTURE)
        log_info("capture: every rank has done its iterations (--prism-iterations=%u)", d->conf->iterations);
    else if (!d->conf->node)
        log_info("slice: every rank has done its iterations (the trace's %u, and the last again)", d->graph->ranks[0].niterations);
    local_stop(d);
}

void enough_begin(struct daemon *d)
{
    bool calibrates = d->phase == PHASE_CALIBRATE && d->graph && !graph_has_teardown(d->graph);
    free(enough.seen);
    enough.seen = calibrates ? calloc(d->conf->world, sizeof *enough.seen) : NULL;
    if (calibrates && !enough.seen)
        abort();
    enough.looks = calibrates || (d->phase == PHASE_CAPTURE && d->conf->iterations);
    enough.next_ns = clock_now_ns() + LOOK_NS;
    enough.at = enough.in_row = 0;
    enough.told = enough.reached = false;
    enough.nodes = 0;
    link_on(LINK_REACHED, on_reached);
    link_on(LINK_ENOUGH, on_enough);
}

bool enough_goes_round(void)
{
    return enough.seen;
}

bool enough_is_recorded(const struct daemon *d)
{
    for (uint32_t i = 0; enough.seen && i < d->conf->world; i++)
        if (d->ranks[i] && d->ranks[i]->state != RANK_ENDED && behind_recorded(d, d->ranks[i]) < 0)
            return false;
    return enough.seen;
}

void enough_tick(struct daemon *d)
{
    int64_t now = clock_now_ns();
    if (!enough.looks || enough.told || d->stopping || now < enough.next_ns)
        return;
    enough.next_ns = now + LOOK_NS;
    see_who_moves(d, now);
    if (!all_have_enough(d))
        return;
    if (enough_goes_round())
        tell_still(d);
    enough.told = true;
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)d->phase);
    link_send(d, 0, LINK_REACHED, &b);
    bytes_free(&b);
}

bool enough_reached(void)
{
    return enough.reached;
}
