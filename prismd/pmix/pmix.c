#include "prismd/pmix/pmix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

#include <event2/bufferevent.h>

#include "prismd/folding/folding.h"
#include "prismd/link/link.h"
#include "prismd/place.h"
#include "prismd/pmix/pmix_door.h"
#include "prismd/pmix/pmix_identity.h"
#include "prismd/pmix/pmix_private.h"
#include "prismd/pmix/pmix_trace.h"
#include "prismd/ranks/tasks.h"

enum end { END_PLAIN, END_ABORTED, END_UNFINISHED /* in order, but not PMIx_Finalize */ };

/* What came from a node that has begun the next phase already. */
struct early {
    uint32_t from;
    struct bytes message; /* owned */
    struct early *next;
};

struct pmix_state px;
static struct early *early, **early_tail;

void pmix_say(struct bytes *b, enum pmix_message what)
{
    bytes_put_u32(b, px.serial);
    bytes_put_u32(b, what);
}

struct pmix_node *pmix_server_of(uint32_t rank)
{
    uint32_t server = px.world.server[rank];
    return server == PMIX_ABSENT ? NULL : px.nodes[server];
}

void pmix_put_rest(struct bytes *b, const struct bytes_reader *r)
{
    bytes_put(b, r->data + r->pos, r->len - r->pos);
}

uint32_t pmix_logical_node(const struct daemon *d, uint32_t server)
{
    return px.world.first[server] / d->conf->gpus_per_node;
}

/* --- fences --- */

static void answer_fence(const struct pmix_fence *f, bool lost)
{
    struct bytes all = {0};
    for (uint32_t n = 0; n < px.world.servers; n++)
        bytes_put(&all, f->entries[n].data.data, f->entries[n].data.len);
    for (uint32_t n = 0; n < px.world.servers; n++) {
        if (!f->entries[n].entered || !px.nodes[n])
            continue;
        struct bytes b = {0};
        bytes_put_u64(&b, f->entries[n].token);
        bytes_put_u32(&b, lost ? PMIX_WIRE_GONE : PMIX_WIRE_FOUND);
        bytes_put(&b, all.data, all.len);
        pmix_node_send(px.nodes[n], PMIX_WIRE_FENCED, &b);
        bytes_free(&b);
    }
    bytes_free(&all);
}

static void complete_fences(void)
{
    bool lost;
    struct pmix_fence *f;
    while ((f = pmix_fence_complete(&px.fences, &lost))) {
        answer_fence(f, lost);
        pmix_fence_destroy(f, px.world.servers);
    }
}

static uint32_t *get_ranks(struct bytes_reader *r, uint32_t *n)
{
    *n = bytes_get_u32(r);
    const void *data = bytes_get(r, (size_t)*n * sizeof(uint32_t));
    uint32_t *ranks = data ? malloc((*n + 1u) * sizeof *ranks) : NULL;
    if (ranks)
        memcpy(ranks, data, *n * sizeof *ranks);
    return ranks;
}

static void on_fence(struct bytes_reader *r)
{
    uint32_t server = bytes_get_u32(r), n;
    uint64_t token = bytes_get_u64(r);
    uint32_t *ranks = get_ranks(r, &n);
    if (!ranks || server >= px.world.servers) {
        free(ranks);
        return;
    }
    struct pmix_fence *f = pmix_fence_enter(&px.fences, server, ranks, n);
    f->entries[server].token = token;
    pmix_put_rest(&f->entries[server].data, r);
    free(ranks);
    complete_fences();
}

/* --- the ends of ranks --- */

static void tell_servers_lost(uint32_t rank, bool unfinished)
{
    struct bytes b = {0};
    bytes_put_u32(&b, rank);
    bytes_put_u32(&b, unfinished);
    for (uint32_t n = 0; n < px.world.servers; n++)
        if (px.nodes[n] && pmix_node_started(px.nodes[n]))
            pmix_node_send(px.nodes[n], PMIX_WIRE_LOST, &b);
    bytes_free(&b);
}

static void on_ended(struct bytes_reader *r)
{
    uint32_t rank = bytes_get_u32(r), end = bytes_get_u32(r);
    if (r->bad || rank >= px.world.world)
        return;
    px.world.ended[rank] = 1;
    if (end != END_PLAIN)
        tell_servers_lost(rank, end == END_UNFINISHED);
    complete_fences();
}

/* Also of a program without NCCL, whose processes else may end as they like (tasks.h): the others would wait for ever. */
static void end_with(struct daemon *d, const struct rank *r)
{
    int status = r->exit_status, code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!d->failure.code && !d->stopping)
        d->program_exit = code;
    daemon_fail(d, PRISM_EXIT_RANK, "rank %u ended with %s %d in %s, before PMIx_Finalize (MPI_Finalize)", r->number,
                WIFEXITED(status) ? "exit code" : "signal", WIFEXITED(status) ? code : WTERMSIG(status), d->ops->name);
}

void pmix_rank_ended(struct daemon *d, const struct rank *r)
{
    struct bytes b = {0};
    if (!px.active)
        return;
    enum pmix_joined joined = px.joined[r->number];
    if (joined == PMIX_CONNECTED && r->exit_status && !d->stopping)
        end_with(d, r);
    enum end end = r->exit_status || joined == PMIX_ABORTED ? END_ABORTED : joined == PMIX_CONNECTED ? END_UNFINISHED : END_PLAIN;
    pmix_say(&b, SAY_ENDED);
    bytes_put_u32(&b, r->number);
    bytes_put_u32(&b, end);
    link_announce(d, LINK_PMIX, &b);
    bytes_free(&b);
    pmix_drop_asks_of(d, r->number);
}

static void on_abort(struct daemon *d, struct bytes_reader *r)
{
    uint32_t rank = bytes_get_u32(r);
    int status = (int)bytes_get_u32(r);
    char *text = bytes_get_string(r);
    if (rank < px.world.world && d->ranks[rank]) {
        const char *output = d->ranks[rank]->log_path;
        px.joined[rank] = PMIX_ABORTED;
        if (!d->failure.code)
            d->program_exit = status > 0 && status < 256 ? status : 1;
        daemon_fail(d, PRISM_EXIT_RANK, "rank %u called PMIx_Abort (MPI_Abort) with status %d in %s%s%s%s%s", rank, status,
                    d->ops->name, text && *text ? ": " : "", text ? text : "", output ? "; its output: " : "", output ? output : "");
    }
    free(text);
}

/* --- messages of this node's servers --- */

static void on_server_fence(struct daemon *d, uint32_t server, struct bytes_reader *r)
{
    uint64_t token = bytes_get_u64(r);
    uint32_t n;
    uint32_t *ranks = get_ranks(r, &n);
    struct pmix_fence members = {.ranks = ranks, .nranks = n};
    if (ranks)
        pmix_fence_sort(ranks, n);
    for (uint32_t k = px.world.first[server]; ranks && k < px.world.end[server]; k++)
        if (px.world.server[k] == server && pmix_fence_has(&members, k))
            px.passed[k]++;
    for (uint32_t m = bytes_get_u32(r); m && !r->bad; m--) {
        uint32_t rank = bytes_get_u32(r);
        uint64_t len = bytes_get_u64(r);
        const void *data = bytes_get(r, len);
        if (data && rank < px.world.world)
            pmix_record(d, rank, px.passed[rank], data, len);
    }
    if (ranks && !r->bad) {
        struct bytes b = {0};
        pmix_say(&b, SAY_FENCE);
        bytes_put_u32(&b, server);
        bytes_put_u64(&b, token);
        bytes_put_u32(&b, n);
        bytes_put(&b, ranks, n * sizeof *ranks);
        pmix_put_rest(&b, r);
        link_announce(d, LINK_PMIX, &b);
        bytes_free(&b);
    }
    free(ranks);
}

static void on_server_finalized(struct daemon *d, uint32_t server, struct bytes_reader *r)
{
    uint64_t token = bytes_get_u64(r);
    uint32_t rank = bytes_get_u32(r);
    struct bytes b = {0};
    if (r->bad || rank >= px.world.world)
        return;
    px.joined[rank] = PMIX_FINALIZED;
    pmix_record(d, rank, px.passed[rank] + 1, r->data + r->pos, r->len - r->pos);
    bytes_put_u64(&b, token);
    pmix_node_send(px.nodes[server], PMIX_WIRE_FINISH, &b);
    bytes_free(&b);
}

static void on_server_ready(struct daemon *d, struct bytes_reader *r)
{
    bytes_get_u32(r);
    char *version = bytes_get_string(r);
    snprintf(px.version, sizeof px.version, "%s", version ? version : "");
    free(version);
    if (px.log && d->phase != PHASE_CAPTURE && strcmp(px.version, pmix_log_version(px.log)))
        daemon_fail(d, PRISM_EXIT_TRACE, "the trace was captured with PMIx %s and this node has %s, which reads other data; capture again",
                    pmix_log_version(px.log), px.version);
}

static void on_server_failed(struct daemon *d, uint32_t server, struct bytes_reader *r)
{
    char *text = bytes_get_string(r);
    daemon_fail(d, PRISM_EXIT_DAEMON, "the PMIx server of logical node %u cannot go on: %s", pmix_logical_node(d, server), text ? text : "?");
    free(text);
}

static void on_server(struct daemon *d, uint32_t server, enum pmix_wire_type type, struct bytes_reader *r)
{
    if (type == PMIX_WIRE_READY) {
        on_server_ready(d, r);
    } else if (type == PMIX_WIRE_CONNECTED) {
        uint32_t rank = bytes_get_u32(r);
        if (rank < px.world.world)
            px.joined[rank] = PMIX_CONNECTED;
        tasks_start_deferred(d);
    } else if (type == PMIX_WIRE_FENCE) {
        on_server_fence(d, server, r);
    } else if (type == PMIX_WIRE_GET) {
        pmix_on_server_get(d, server, r);
    } else if (type == PMIX_WIRE_TOLD) {
        pmix_on_server_told(d, r);
    } else if (type == PMIX_WIRE_FINALIZED) {
        on_server_finalized(d, server, r);
    } else if (type == PMIX_WIRE_ABORT) {
        on_abort(d, r);
    } else if (type == PMIX_WIRE_FAILED) {
        on_server_failed(d, server, r);
    }
}

/* --- messages of other nodes (and of this one to itself) --- */

static void keep_early(uint32_t from, const struct bytes_reader *r)
{
    struct early *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->from = from;
    bytes_put(&e->message, r->data, r->len);
    if (!early)
        early_tail = &early;
    *early_tail = e;
    early_tail = &e->next;
}

static void on_message(struct daemon *d, uint32_t from, struct bytes_reader *r)
{
    uint32_t serial = bytes_get_u32(r), what = bytes_get_u32(r);
    if (r->bad)
        return;
    if (what == SAY_NAME) {
        char *name = bytes_get_string(r);
        snprintf(px.name, sizeof px.name, "%s", name ? name : "");
        px.serial = serial;
        free(name);
        return;
    }
    if (serial > px.begun)
        keep_early(from, r);
    if (serial != px.begun || (!px.active && what != SAY_PUT)) /* what an ended phase still says */
        return;
    if (what == SAY_FENCE)
        on_fence(r);
    else if (what == SAY_ASK)
        pmix_on_ask(d, from, r);
    else if (what == SAY_TOLD)
        pmix_on_told(r);
    else if (what == SAY_PUT)
        pmix_on_put(r);
    else if (what == SAY_ENDED)
        on_ended(r);
}

void pmix_init(void)
{
    link_on(LINK_PMIX, on_message);
}

/* --- a phase --- */

void pmix_name_phase(struct daemon *d)
{
    uint64_t secret[2] = {0};
    char name[64];
    struct bytes b = {0};
    /* libpmix believes what a client says of its user: only the ranks may know the name. */
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        abort();
    snprintf(name, sizeof name, "prism-%016llx%016llx", (unsigned long long)secret[0], (unsigned long long)secret[1]);
    bytes_put_u32(&b, px.serial + 1);
    bytes_put_u32(&b, SAY_NAME);
    bytes_put_string(&b, name);
    link_announce(d, LINK_PMIX, &b);
    bytes_free(&b);
}

static bool switched_off(void)
{
    const char *value = getenv("PRISM_PMIX");
    return value && !strcmp(value, "0");
}

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        abort();
    return p;
}

static void make_world(const struct conf *c)
{
    px.world = (struct pmix_world){.world = c->world,
                                   .server = zeroed(c->world, sizeof(uint32_t)),
                                   .first = zeroed(c->world, sizeof(uint32_t)),
                                   .end = zeroed(c->world, sizeof(uint32_t)),
                                   .ended = zeroed(c->world, 1)};
    memset(px.world.server, 0xff, c->world * sizeof *px.world.server);
    px.fences = (struct pmix_fences){.world = &px.world};
    px.joined = zeroed(c->world, 1);
    px.home = zeroed(c->world, sizeof *px.home);
    px.passed = zeroed(c->world, sizeof *px.passed);
    px.nodes = zeroed(c->world, sizeof(struct pmix_node *));
}

/* Ascending live ranks: those of a logical node follow each other, and so do, among them, those of a machine. */
static void place_ranks(const struct daemon *d, const uint32_t *live, uint32_t nlive)
{
    const struct conf *c = d->conf;
    make_world(c);
    for (uint32_t i = 0; i < nlive; i++) {
        uint32_t home = d->phase == PHASE_CAPTURE ? place_capture_node(c, live[i]) : place_live_node(c, i, nlive);
        uint32_t last = px.world.servers - 1;
        if (!px.world.servers || live[i] / c->gpus_per_node != pmix_logical_node(d, last) || home != px.home[last]) {
            last = px.world.servers++;
            px.world.first[last] = live[i];
            px.home[last] = home;
        }
        px.world.end[last] = live[i] + 1;
        px.world.server[live[i]] = last;
    }
}

static void describe_job(struct daemon *d, uint32_t server, struct bytes *job)
{
    struct bytes live = {0};
    uint32_t n = 0;
    char *names = pmix_node_names(d->conf);
    for (uint32_t r = px.world.first[server]; r < px.world.end[server]; r++)
        if (px.world.server[r] == server) {
            bytes_put_u32(&live, r);
            n++;
        }
    bytes_put_string(job, px.name);
    bytes_put_u32(job, px.world.world);
    bytes_put_u32(job, d->conf->gpus_per_node);
    bytes_put_string(job, names);
    bytes_put_u32(job, pmix_logical_node(d, server));
    bytes_put_u32(job, d->phase == PHASE_CAPTURE);
    bytes_put_u32(job, n);
    bytes_put(job, live.data, live.len);
    bytes_free(&live);
    free(names);
}

static void on_guest(struct daemon *d, uint32_t rank, struct bufferevent *connection)
{
    struct pmix_node *n = rank < px.world.world && folding_allows_pmix(d, rank) ? pmix_server_of(rank) : NULL;
    if (n)
        pmix_node_connect(n, connection);
    else
        bufferevent_free(connection);
}

static int open_door(struct daemon *d, struct prism_error *err)
{
    static const struct pmix_node_events events = {.describe = describe_job, .message = on_server};
    for (uint32_t s = 0; s < px.world.servers; s++)
        if (px.home[s] == d->conf->node)
            px.nodes[s] = pmix_node_create(d, pmix_logical_node(d, s), s, &events);
    px.door = pmix_door_create(d, px.name, on_guest, err);
    return px.door ? 0 : -1;
}

static void take_early(struct daemon *d)
{
    while (early) {
        struct early *e = early;
        struct bytes_reader r = bytes_reader_init(e->message.data, e->message.len);
        early = e->next;
        on_message(d, e->from, &r);
        bytes_free(&e->message);
        free(e);
    }
}

int pmix_begin(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err)
{
    pmix_end(d);
    pmix_log_destroy(px.log);
    px.log = NULL;
    px.begun = px.serial;
    if (switched_off())
        return 0;
    px.active = true;
    place_ranks(d, live, nlive);
    int rc = 0;
    if (d->phase != PHASE_CAPTURE)
        rc = pmix_trace_read(d->conf->trace, px.world.world, nlive, &px.log, err);
    else if (!d->conf->node)
        px.log = pmix_log_create(px.world.world);
    if (!rc)
        rc = open_door(d, err);
    take_early(d);
    return rc;
}

void pmix_end(struct daemon *d)
{
    (void)d;
    if (!px.active)
        return;
    px.active = false;
    pmix_fences_clear(&px.fences);
    pmix_door_destroy(px.door);
    px.door = NULL;
    for (uint32_t n = 0; n < px.world.servers; n++)
        pmix_node_destroy(px.nodes[n]);
    pmix_values_end();
    free(px.nodes);
    free(px.world.server);
    free(px.world.first);
    free(px.world.end);
    free(px.world.ended);
    free(px.joined);
    free(px.home);
    free(px.passed);
}

void pmix_environment(const struct rank *r)
{
    bool served = px.active && px.door && pmix_server_of(r->number);
    pmix_set_variables(r, served ? px.name : NULL, served ? pmix_door_port(px.door) : 0);
}

bool pmix_reaped(struct daemon *d, pid_t pid, int status)
{
    (void)d;
    for (uint32_t n = 0; px.active && n < px.world.servers; n++)
        if (px.nodes[n] && pmix_node_reaped(px.nodes[n], pid, status))
            return true;
    return false;
}

int pmix_save(const char *trace, struct prism_error *err)
{
    return pmix_trace_write(trace, px.log, err);
}
