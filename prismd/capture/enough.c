#include "prismd/capture/enough.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "prismd/replay/emulate.h"
#include "prismd/replay/measured.h"
#include "prismd/link/link.h"
#include "prismd/local.h"

#define LOOK_NS   (NSEC_PER_SEC / 2)
#define BUDGET_NS (NSEC_PER_SEC / 50) /* of one look: the lock is held meanwhile */
#define LEAST     3u

static struct {
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

static bool has_enough(const struct daemon *d, const struct rank *r)
{
    if (r->state == RANK_ENDED)
        return true; /* it waits for nobody */
    uint32_t wanted = d->conf->iterations + 1 > LEAST ? d->conf->iterations + 1 : LEAST;
    if (d->phase != PHASE_CAPTURE)
        return emulate_rank_result(d, r->number).iterations >= d->graph->ranks[r->number].niterations + MEASURED_PASSES + 1;
    return graph_count_iterations(d->graph, r->number, nodes_over(r)) >= wanted;
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
    if (!d->conf->node)
        log_info("%s: every rank has done its iterations (--prism-iterations=%u)", d->phase == PHASE_CAPTURE ? "capture" : "slice",
                 d->conf->iterations);
    local_stop(d);
}

void enough_begin(struct daemon *d)
{
    (void)d;
    enough.next_ns = clock_now_ns() + LOOK_NS;
    enough.at = enough.in_row = 0;
    enough.told = enough.reached = false;
    enough.nodes = 0;
    link_on(LINK_REACHED, on_reached);
    link_on(LINK_ENOUGH, on_enough);
}

void enough_tick(struct daemon *d)
{
    if (!d->conf->iterations || d->phase == PHASE_EMULATE || enough.told || d->stopping || clock_now_ns() < enough.next_ns)
        return;
    enough.next_ns = clock_now_ns() + LOOK_NS;
    if (!all_have_enough(d))
        return;
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
