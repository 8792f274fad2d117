#include "prismd/capture/hang.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "prismd/diagnose/diagnose.h"
#include "prismd/folding/folding.h"
#include "prismd/capture/hang_cpu.h"
#include "prismd/capture/hang_file.h"
#include "prismd/link/link.h"
#include "prismd/switching/movers.h"
#include "prismd/capture/registry.h"
#include "prismd/capture/standing.h"

#define SECONDS 20  /* PRISM_STALL_SECONDS */
#define LIKELY_TIMES 3
#define LOOK_NS (NSEC_PER_SEC / 4)
#define SHOWN   6   /* findings printed */
#define WARN_NS (60 * NSEC_PER_SEC)

enum { IS_STUCK = 1, HAS_WAITING = 2 }; /* of a node, as it told */

static struct {
    int64_t limit_ns, next_look_ns, quiet_since_ns;
    uint64_t movement;
    uint64_t moves; /* the daemon's, when last looked: the cheap look, which does not see all */
    uint8_t *was_in;        /* owned; by rank: it has been in device memory since all is quiet */
    struct hang_cpu *cpu;   /* owned; since all is quiet */
    bool told, warned;
    uint8_t *nodes;         /* owned; coordinator: by node, IS_STUCK, HAS_WAITING */
    struct hang_hosts hosts;
} hang;

int64_t hang_limit_ns(void)
{
    const char *text = getenv("PRISM_STALL_SECONDS");
    char *end;
    double seconds = text && *text ? strtod(text, &end) : SECONDS;
    if (text && *text && (*end || !(seconds >= 0 && seconds <= 1e6))) {
        log_warn("PRISM_STALL_SECONDS=%s is no number of seconds; %d is used", text, SECONDS);
        seconds = SECONDS;
    }
    return (int64_t)(seconds * 1e9);
}

/* ---- This node ---- */

/* Changes whenever anything happens to a rank of this node. */
uint64_t hang_movement(const struct daemon *d)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r)
            continue;
        if (movers_is_in(d, r))
            hang.was_in[i] = 1;
        /* running_since_ns: of its latest message, or when a gate of it was last let open */
        sum += r->nodes + (uint64_t)r->running_since_ns + (r->pid ? 7 : 0) + (r->state == RANK_ENDED ? 11 : 0);
        for (uint32_t s = 0; s < r->nstreams; s++)
            if (r->streams[s])
                sum += r->streams[s]->arrived + r->streams[s]->pending * 13u;
    }
    return sum;
}

static enum hang_look look_at(const struct daemon *d, const struct rank *r, bool *waits)
{
    bool in_communication;
    *waits = false;
    if (!r->pid || r->host_waits == HOST_IN_DRIVER || !standing_everywhere(d->graph, r, &in_communication))
        return HANG_MOVES;
    if (!hang.was_in[r->number])
        return HANG_MOVES;
    *waits = in_communication || r->host_waits == HOST_IN_INIT;
    return r->host_waits == HOST_IN_INIT || (r->host_waits == HOST_IN_SYNC && in_communication) ? HANG_SURELY : HANG_LIKELY;
}

enum hang_look hang_look(const struct daemon *d, const struct rank *r)
{
    bool waits;
    return look_at(d, r, &waits);
}

struct looked {
    uint32_t live, likely, waiting;
};

/* False: somebody moves. */
static bool look_at_all(const struct daemon *d, struct looked *l)
{
    *l = (struct looked){0};
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        bool waits;
        if (!r || r->state == RANK_ENDED)
            continue;
        enum hang_look stuck = look_at(d, r, &waits);
        if (stuck == HANG_MOVES)
            return false;
        l->live++;
        l->likely += stuck == HANG_LIKELY;
        l->waiting += waits;
    }
    return true;
}

static void describe_host(const struct rank *r, bool waits, enum hang_look stuck, char *text, size_t len)
{
    double seconds = (double)(clock_now_ns() - hang.quiet_since_ns) / 1e9;
    text[0] = 0;
    if (r->state == RANK_ENDED)
        snprintf(text, len, "its process has ended");
    else if (r->host_waits == HOST_IN_INIT)
        snprintf(text, len, "its host waits in ncclCommInitRank or ncclCommSplit for other members");
    else if (stuck == HANG_LIKELY)
        snprintf(text, len, "its host has made no call of CUDA or NCCL for %.0f s%s and uses no processor time (it waits for a lock, a file, a socket, the store?)",
                 seconds, waits ? " although operations are under way" : !r->hello ? ", not one since it was started," : "");
}

/* To the coordinator: u32 phase, u8 stuck, u32 waiting, u32 n, n times (u32 rank, string). */
static void tell(struct daemon *d, bool stuck, const struct looked *l)
{
    struct bytes b = {0}, hosts = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; stuck && i < d->conf->world; i++) {
        char text[256];
        bool waits = false;
        if (!d->ranks[i])
            continue;
        enum hang_look how = d->ranks[i]->state == RANK_ENDED ? HANG_SURELY : look_at(d, d->ranks[i], &waits);
        describe_host(d->ranks[i], waits, how, text, sizeof text);
        if (!text[0])
            continue;
        bytes_put_u32(&hosts, i);
        bytes_put_string(&hosts, text);
        n++;
    }
    bytes_put_u32(&b, (uint32_t)d->phase);
    bytes_put_u8(&b, stuck);
    bytes_put_u32(&b, stuck ? l->waiting : 0);
    bytes_put_u32(&b, n);
    bytes_put(&b, hosts.data, hosts.len);
    hang.told = stuck;
    link_send(d, 0, LINK_STUCK, &b);
    bytes_free(&hosts);
    bytes_free(&b);
}

static void begin_anew(struct daemon *d, int64_t now)
{
    hang.quiet_since_ns = now;
    hang_cpu_destroy(hang.cpu);
    hang.cpu = NULL;
    memset(hang.was_in, 0, d->conf->world);
    if (hang.told)
        tell(d, false, NULL);
}

/* Ranks that are only likely stuck: have their processes done nothing? */
static bool are_idle(struct daemon *d, int64_t now)
{
    if (!hang.cpu) {
        hang.cpu = hang_cpu_create(d);
        return false;
    }
    uint32_t busy = hang_cpu_busy_rank(hang.cpu, d);
    if (busy == HANG_CPU_NOBODY)
        return true;
    if (!hang.warned && now - hang.quiet_since_ns > WARN_NS) {
        hang.warned = true;
        log_warn("capture: nothing has moved for %d s: rank %u computes on its host, others wait", (int)(WARN_NS / NSEC_PER_SEC), busy);
    }
    hang_cpu_destroy(hang.cpu);
    hang.cpu = NULL;
    return false;
}

void hang_tick(struct daemon *d)
{
    int64_t now = clock_now_ns();
    struct looked l;
    if (d->phase != PHASE_CAPTURE || d->stopping || !hang.limit_ns || now < hang.next_look_ns)
        return;
    hang.next_look_ns = now + LOOK_NS;
    if (d->moves != hang.moves) {
        hang.moves = d->moves;
        begin_anew(d, now);
        return;
    }
    uint64_t movement = hang_movement(d);
    if (movement != hang.movement) {
        hang.movement = movement;
        begin_anew(d, now);
        return;
    }
    /* Who is out of memory, or works on a stream, will be seen to move in time. */
    int64_t so_far = now - hang.quiet_since_ns;
    if (hang.told || so_far < hang.limit_ns || !look_at_all(d, &l))
        return;
    /* The processor time is looked at over the last third of the time. */
    if (l.likely && (so_far < (LIKELY_TIMES - 1) * hang.limit_ns || !are_idle(d, now) || so_far < LIKELY_TIMES * hang.limit_ns))
        return;
    tell(d, true, &l);
}

/* ---- The coordinator ---- */

static void note(void *arg, const char *text)
{
    (void)arg;
    hang_hosts_note(&hang.hosts, text);
}

static void on_stuck(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    if (bytes_get_u32(b) != (uint32_t)d->phase || !hang.nodes || d->stopping || from >= d->conf->nodes)
        return;
    hang.nodes[from] = bytes_get_u8(b) ? IS_STUCK : 0;
    if (bytes_get_u32(b))
        hang.nodes[from] |= HAS_WAITING;
    uint32_t stuck = 0, waiting = 0;
    for (uint32_t n = bytes_get_u32(b); n > 0 && !b->bad; n--) {
        uint32_t rank = bytes_get_u32(b);
        char *text = bytes_get_string(b);
        if (!text || rank >= hang.hosts.world) {
            free(text);
            continue;
        }
        free(hang.hosts.ranks[rank]);
        hang.hosts.ranks[rank] = text;
    }
    for (uint32_t i = 0; i < d->conf->nodes; i++) {
        stuck += (hang.nodes[i] & IS_STUCK) != 0;
        waiting += (hang.nodes[i] & HAS_WAITING) != 0;
    }
    if (stuck < d->conf->nodes || !waiting)
        return;
    registry_tell_pending(d, note, NULL);
    daemon_fail(d, PRISM_EXIT_HANG, "the program hangs: nothing has moved for %.3g s and no rank can go on; prism verify %s says more "
                "(PRISM_STALL_SECONDS sets the time, 0: wait for ever)", (double)hang.limit_ns / 1e9, d->conf->trace);
}

/* ---- What was recorded ---- */

bool hang_keeps_graph(const struct daemon *d)
{
    return d->graph && d->program_exit <= 0 && (d->failure.code == PRISM_EXIT_HANG || d->failure.code == PRISM_EXIT_RANK);
}

static void print_diagnosis(const struct daemon *d)
{
    struct diagnose_options options = {(const char *const *)hang.hosts.ranks, true, 0};
    struct diagnosis found;
    diagnose(d->graph, &options, &found);
    for (uint32_t i = 0; i < found.n && i < SHOWN; i++)
        log_error("%s: %s", finding_name(found.list[i].kind), found.list[i].text);
    for (uint32_t i = 0; i < hang.hosts.nnotes && i < SHOWN; i++)
        log_error("communicator: %s", hang.hosts.notes[i]);
    diagnosis_clear(&found);
}

void hang_salvage(struct daemon *d)
{
    struct prism_error err = {0};
    struct bytes b = {0};
    char path[PATH_MAX];
    if (!hang_keeps_graph(d))
        return;
    if (folding_expand(d, &err)) /* absent ranks stand where their representatives do */
        log_warn("%s", err.text);
    graph_write(d->graph, &b);
    snprintf(path, sizeof path, "%s/graph.bin", d->conf->trace);
    if (file_write_atomic(path, b.data, b.len, 0644, &err) || hang_hosts_write(d->conf->trace, &hang.hosts, &err))
        log_warn("what was recorded cannot be kept: %s", err.text);
    bytes_free(&b);
    print_diagnosis(d);
    hang_hosts_clear(&hang.hosts);
}

/* What an earlier capture into this folder ended with. */
static void forget_earlier(const struct daemon *d)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/hang.json", d->conf->trace);
    if (!d->conf->node)
        unlink(path);
}

void hang_begin(struct daemon *d)
{
    hang_end(d);
    hang_hosts_clear(&hang.hosts);
    if (d->phase != PHASE_CAPTURE)
        return;
    forget_earlier(d);
    hang_hosts_init(&hang.hosts, d->conf->world);
    hang.limit_ns = hang_limit_ns();
    hang.quiet_since_ns = hang.next_look_ns = clock_now_ns();
    hang.movement = 0;
    hang.told = hang.warned = false;
    hang.was_in = calloc(d->conf->world + 1u, 1);
    hang.nodes = calloc(d->conf->nodes + 1u, 1);
    if (!hang.was_in || !hang.nodes)
        abort();
    link_on(LINK_STUCK, on_stuck);
}

void hang_end(struct daemon *d)
{
    (void)d;
    hang_cpu_destroy(hang.cpu);
    free(hang.was_in);
    free(hang.nodes);
    hang.cpu = NULL;
    hang.was_in = hang.nodes = NULL;
}
