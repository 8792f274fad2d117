#include "prismd/folding/folding.h"

#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "common/clock.h"
#include "common/log.h"
#include "prismd/folding/folding_spread.h"
#include "prismd/capture/hang.h"
#include "prismd/capture/hang_cpu.h"
#include "prismd/capture/record.h"
#include "prismd/link/link.h"
#include "prismd/capture/registry.h"
#include "prismd/store.h"

#define INIT_NS   (NSEC_PER_SEC / 20)  /* all ranks are in making communicators: nothing else is under way */
#define SYNC_NS   (NSEC_PER_SEC / 2)   /* some wait for a stream, on which a kernel may run still */
#define LIKELY_NS (3 * NSEC_PER_SEC)   /* some have only been silent; then their processor time is looked at as long */
#define STORE_NS  (5 * NSEC_PER_SEC)   /* and nothing can be made: it never will be */

struct stand_ins {
    uint32_t live;
    uint32_t *places; /* owned; NULL: all run */
};

static struct {
    struct stand_ins *comms; /* owned, by global number */
    uint32_t ncomms;
    uint64_t movement;
    int64_t since_ns;        /* quiet */
    struct hang_cpu *cpu;    /* owned */
    int64_t cpu_since_ns;
    uint8_t told;            /* what the coordinator knows of this node: 0 moves, 1 quiet, 2 for long */
    uint8_t *nodes;          /* owned; coordinator: what they told */
} folding;

/* ---- Members ---- */

static void learn(const struct daemon *d, uint32_t global)
{
    const struct graph_comm *c = &d->graph->comms[global];
    if (global >= folding.ncomms) {
        uint32_t n = global + 16;
        folding.comms = realloc(folding.comms, n * sizeof *folding.comms);
        if (!folding.comms)
            abort();
        memset(folding.comms + folding.ncomms, 0, (n - folding.ncomms) * sizeof *folding.comms);
        folding.ncomms = n;
    }
    struct stand_ins *s = &folding.comms[global];
    if (s->live)
        return;
    for (uint32_t i = 0; i < c->size; i++)
        s->live += fold_is_live(d->conf->fold, (uint32_t)c->ranks[i]);
    if (s->live == c->size)
        return;
    s->places = malloc(c->size * sizeof *s->places);
    if (!s->places)
        abort();
    fold_stand_ins(d->conf->fold, c, s->places);
}

uint32_t folding_live_members(const struct daemon *d, int32_t global, const uint32_t **stand_ins)
{
    *stand_ins = NULL;
    if (!d->conf->fold)
        return d->graph->comms[global].size;
    learn(d, (uint32_t)global);
    *stand_ins = folding.comms[global].places;
    return folding.comms[global].live;
}

bool folding_has_root(struct daemon *d, const struct graph_comm *c, const struct msg_part *what)
{
    bool sends = what->op == PRISM_OP_BROADCAST || what->op == PRISM_OP_SCATTER;
    if (!d->conf->fold || !sends || what->peer < 0 || (uint32_t)what->peer >= c->size ||
        fold_is_live(d->conf->fold, (uint32_t)c->ranks[what->peer]))
        return true;
    daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                "%s from rank %d, which is folded away, and what it sends is not known: name it in --prism-sandbox too",
                prism_op_name(what->op), c->ranks[what->peer]);
    return false;
}

static bool expanded; /* outlives the phase: a graph that fails its check afterwards is kept for the diagnosis */

int folding_expand(struct daemon *d, struct prism_error *err)
{
    if (!d->conf->fold || expanded)
        return 0;
    expanded = true;
    if (fold_expand(d->conf->fold, d->graph, err))
        return -1;
    for (uint32_t i = 0; record_marks() && i < d->conf->world; i++)
        graph_marks_copy(record_marks(), i, record_marks(), d->conf->fold->representative[i]);
    return 0;
}

void folding_classes(struct daemon *d)
{
    if (d->conf->fold)
        fold_classes(d->conf->fold, d->graph);
}

static uint32_t played; /* outlives the phase: it is reported at the end of the run */

uint32_t *folding_twins(const struct daemon *d, const uint8_t *external)
{
    played = 0;
    if (!d->conf->fold)
        return NULL;
    uint32_t *as = malloc(d->conf->world * sizeof *as);
    if (!as)
        abort();
    uint32_t n = fold_twins(d->conf->fold, d->graph, external, as);
    if (n < d->conf->world) {
        played = n;
        log_debug("%u of %u ranks are played: absent replicas do the same at the same times", n, d->conf->world);
        return as;
    }
    free(as);
    return NULL;
}

uint32_t folding_played(void)
{
    return played;
}

/* ---- Nobody else will come ---- */

/* How long must nothing move until this node's ranks are known not to go on? 0: one of them moves. */
static int64_t needed_ns(const struct daemon *d)
{
    int64_t needed = INIT_NS;
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r || r->state == RANK_ENDED)
            continue;
        enum hang_look look = hang_look(d, r);
        if (look == HANG_MOVES)
            return 0;
        int64_t own = r->host_waits == HOST_IN_INIT ? INIT_NS : SYNC_NS;
        if (look == HANG_LIKELY && !store_has_waiting(d->store, i, NULL, 0))
            own = LIKELY_NS;
        needed = own > needed ? own : needed;
    }
    return needed;
}

/* Ranks that have only been silent: have they computed? */
static bool are_idle(struct daemon *d, int64_t now)
{
    if (!folding.cpu) {
        folding.cpu = hang_cpu_create(d);
        folding.cpu_since_ns = now;
    }
    if (now - folding.cpu_since_ns < LIKELY_NS)
        return false;
    bool idle = hang_cpu_busy_rank(folding.cpu, d) == HANG_CPU_NOBODY;
    hang_cpu_destroy(folding.cpu);
    folding.cpu = NULL;
    return idle;
}

static void tell(struct daemon *d, uint8_t what)
{
    struct bytes b = {0};
    if (folding.told == what)
        return;
    folding.told = what;
    bytes_put_u32(&b, (uint32_t)d->phase);
    bytes_put_u8(&b, what);
    link_send(d, 0, LINK_QUIET, &b);
    bytes_free(&b);
}

void folding_tick(struct daemon *d)
{
    int64_t now = clock_now_ns(), needed;
    if (!d->conf->fold || d->phase != PHASE_CAPTURE || d->stopping)
        return;
    uint64_t movement = hang_movement(d);
    if (movement != folding.movement || !(needed = needed_ns(d))) {
        folding.movement = movement;
        folding.since_ns = now;
        hang_cpu_destroy(folding.cpu);
        folding.cpu = NULL;
        tell(d, 0);
        return;
    }
    int64_t so_far = now - folding.since_ns;
    if (so_far < needed || (needed == LIKELY_NS && !folding.told && !are_idle(d, now)))
        return;
    tell(d, so_far < STORE_NS ? 1 : 2);
}

static void tell_key(struct daemon *d)
{
    char key[128];
    for (uint32_t i = 0; i < d->conf->fold->nlive; i++)
        if (store_has_waiting(d->store, d->conf->fold->live[i], key, sizeof key)) {
            daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                        "rank %u waits in the c10d store for \"%s\", which no rank that runs sets: a rank that is folded away does; capture "
                        "without --prism-fold, or name that rank in --prism-sandbox too",
                        d->conf->fold->live[i], key);
            return;
        }
}

static void on_quiet(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    uint32_t phase = bytes_get_u32(b);
    uint8_t what = bytes_get_u8(b), least = 2;
    if (b->bad || phase != (uint32_t)d->phase || !folding.nodes || d->stopping || from >= d->conf->nodes)
        return;
    folding.nodes[from] = what;
    for (uint32_t i = 0; i < d->conf->nodes; i++)
        least = folding.nodes[i] < least ? folding.nodes[i] : least;
    if (!what || !least)
        return;
    if (!registry_settle(d, least == 2) && least == 2 && !d->stopping)
        tell_key(d);
}

void folding_begin(struct daemon *d)
{
    folding_end(d);
    folding_spread_begin();
    expanded = false;
    if (!d->conf->fold)
        return;
    folding.since_ns = clock_now_ns();
    folding.nodes = calloc(d->conf->nodes, 1);
    if (!folding.nodes)
        abort();
    link_on(LINK_QUIET, on_quiet);
}

void folding_end(struct daemon *d)
{
    (void)d;
    for (uint32_t i = 0; i < folding.ncomms; i++)
        free(folding.comms[i].places);
    free(folding.comms);
    free(folding.nodes);
    hang_cpu_destroy(folding.cpu);
    memset(&folding, 0, sizeof folding);
}
