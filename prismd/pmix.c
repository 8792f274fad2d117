#include "prismd/pmix.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <event2/bufferevent.h>

#include "common/bytes.h"
#include "common/file.h"
#include "common/log.h"
#include "prismd/link.h"
#include "prismd/place.h"
#include "prismd/pmix_door.h"
#include "prismd/pmix_fence.h"
#include "prismd/pmix_log.h"
#include "prismd/pmix_node.h"

#define LOG_LIMIT (1ull << 32)

/* LINK_PMIX: u32 serial of the phase, u32 of these, then */
enum message {
    SAY_NAME,   /* string (serial: the new one) */
    SAY_FENCE,  /* u32 server, u64 token, u32 n, n ranks, rest: data */
    SAY_ASK,    /* u32 asking server, u64 token, u32 rank */
    SAY_TOLD,   /* u32 asking server, u64 token, u32 result, rest: what the rank put */
    SAY_PUT,    /* to the coordinator: u32 rank, u32 fence, string version, rest: what the rank put */
    SAY_ENDED,  /* u32 rank, u32 enum end */
};

enum end { END_PLAIN, END_ABORTED, END_UNFINISHED /* in order, but not PMIx_Finalize */ };

enum joined { NEVER, CONNECTED, FINALIZED, ABORTED };

/* A question to one of this node's servers. */
struct ask {
    uint64_t id;
    uint32_t from, server, rank; /* physical node and server that ask */
    uint64_t token;
    struct ask *next;
};

/* What came from a node that has begun the next phase already. */
struct early {
    uint32_t from;
    struct bytes message; /* owned */
    struct early *next;
};

static struct {
    char name[64]; /* of the namespace */
    uint32_t serial, begun; /* phases named, begun */
    bool active;
    struct pmix_world world;
    struct pmix_fences fences;
    uint32_t *home;           /* owned; by server: physical node */
    uint32_t *passed;         /* owned; by rank: fences entered */
    uint8_t *joined;          /* owned; by rank of this node: enum joined */
    struct pmix_node **nodes; /* owned; by server, NULL = not here */
    struct pmix_door *door;
    struct pmix_log *log;     /* capture: what the coordinator has been told; later: the trace's */
    char version[16];         /* of libpmix, once a server runs */
    bool warned;
    struct ask *asks;
    uint64_t asked;
    struct early *early, **early_tail;
} px;

static void say(struct bytes *b, enum message what)
{
    bytes_put_u32(b, px.serial);
    bytes_put_u32(b, what);
}

/* This node's server of a rank, or NULL. */
static struct pmix_node *server_of(uint32_t rank)
{
    uint32_t server = px.world.server[rank];
    return server == PMIX_ABSENT ? NULL : px.nodes[server];
}

static void put_rest(struct bytes *b, const struct bytes_reader *r)
{
    bytes_put(b, r->data + r->pos, r->len - r->pos);
}

static uint32_t logical_node(const struct daemon *d, uint32_t server)
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
    put_rest(&f->entries[server].data, r);
    free(ranks);
    complete_fences();
}

/* --- what ranks put --- */

static void record(struct daemon *d, uint32_t rank, uint32_t fence, const void *data, size_t len)
{
    struct bytes b = {0};
    if (d->phase != PHASE_CAPTURE || !len)
        return;
    say(&b, SAY_PUT);
    bytes_put_u32(&b, rank);
    bytes_put_u32(&b, fence);
    bytes_put_string(&b, px.version);
    bytes_put(&b, data, len);
    link_send(d, 0, LINK_PMIX, &b);
    bytes_free(&b);
}

static void on_put(struct bytes_reader *r)
{
    uint32_t rank = bytes_get_u32(r), fence = bytes_get_u32(r);
    char *version = bytes_get_string(r);
    if (version && !r->bad && px.log) {
        pmix_log_set_version(px.log, version);
        pmix_log_add(px.log, rank, fence, r->data + r->pos, r->len - r->pos);
    }
    free(version);
}

static void answer_get(uint32_t server, uint64_t token, uint32_t result, const void *data, size_t len)
{
    struct bytes b = {0};
    if (server >= px.world.servers || !px.nodes[server])
        return;
    bytes_put_u64(&b, token);
    bytes_put_u32(&b, result);
    bytes_put(&b, data, len);
    pmix_node_send(px.nodes[server], PMIX_WIRE_ANSWER, &b);
    bytes_free(&b);
}

/* Fences that the ranks of a server have behind them. */
static uint32_t passed_on(uint32_t server)
{
    uint32_t most = 0;
    for (uint32_t r = px.world.first[server]; r < px.world.end[server]; r++)
        if (px.world.server[r] == server && px.passed[r] > most)
            most = px.passed[r];
    return most;
}

static void answer_from_trace(const struct daemon *d, uint32_t server, uint64_t token, uint32_t rank, const char *key)
{
    const struct pmix_record *r = px.log ? pmix_log_find(px.log, rank, passed_on(server), key) : NULL;
    if (r) {
        answer_get(server, token, PMIX_WIRE_FOUND, r->data, r->len);
        return;
    }
    if (!px.warned)
        log_warn("PMIx: a rank of logical node %u asks what rank %u has put (%s), and the trace has nothing of it; was the program "
                 "changed since capture?", logical_node(d, server), rank, *key ? key : "anything");
    px.warned = true;
    answer_get(server, token, PMIX_WIRE_NOT_FOUND, NULL, 0);
}

static void tell(struct daemon *d, const struct ask *a, uint32_t result, const void *data, size_t len)
{
    struct bytes b = {0};
    say(&b, SAY_TOLD);
    bytes_put_u32(&b, a->server);
    bytes_put_u64(&b, a->token);
    bytes_put_u32(&b, result);
    bytes_put(&b, data, len);
    link_send(d, a->from, LINK_PMIX, &b);
    bytes_free(&b);
}

/* A rank of this node is asked for; its server answers once it has committed. */
static void on_ask(struct daemon *d, uint32_t from, struct bytes_reader *r)
{
    struct ask asked = {.id = ++px.asked, .from = from, .server = bytes_get_u32(r), .token = bytes_get_u64(r)};
    asked.rank = bytes_get_u32(r);
    if (r->bad || asked.rank >= px.world.world || !server_of(asked.rank))
        return;
    if (px.world.ended[asked.rank] && !px.joined[asked.rank]) {
        tell(d, &asked, PMIX_WIRE_NOT_FOUND, NULL, 0);
        return;
    }
    struct ask *a = malloc(sizeof *a);
    if (!a)
        abort();
    *a = asked;
    a->next = px.asks;
    px.asks = a;
    struct bytes b = {0};
    bytes_put_u64(&b, a->id);
    bytes_put_u32(&b, a->rank);
    pmix_node_send(server_of(a->rank), PMIX_WIRE_ASK, &b);
    bytes_free(&b);
}

static void on_told(struct bytes_reader *r)
{
    uint32_t server = bytes_get_u32(r);
    uint64_t token = bytes_get_u64(r);
    uint32_t result = bytes_get_u32(r);
    if (!r->bad)
        answer_get(server, token, result, r->data + r->pos, r->len - r->pos);
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

/* Nobody will answer for it. */
static void drop_asks_of(struct daemon *d, uint32_t rank)
{
    for (struct ask **at = &px.asks; *at;) {
        struct ask *a = *at;
        if (a->rank != rank) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        tell(d, a, PMIX_WIRE_NOT_FOUND, NULL, 0);
        free(a);
    }
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

void pmix_rank_ended(struct daemon *d, const struct rank *r)
{
    struct bytes b = {0};
    if (!px.active)
        return;
    enum joined joined = px.joined[r->number];
    enum end end = r->exit_status || joined == ABORTED ? END_ABORTED : joined == CONNECTED ? END_UNFINISHED : END_PLAIN;
    say(&b, SAY_ENDED);
    bytes_put_u32(&b, r->number);
    bytes_put_u32(&b, end);
    link_announce(d, LINK_PMIX, &b);
    bytes_free(&b);
    drop_asks_of(d, r->number);
}

static void on_abort(struct daemon *d, struct bytes_reader *r)
{
    uint32_t rank = bytes_get_u32(r);
    int status = (int)bytes_get_u32(r);
    char *text = bytes_get_string(r);
    if (rank < px.world.world && d->ranks[rank]) {
        const char *output = d->ranks[rank]->log_path;
        px.joined[rank] = ABORTED;
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
    for (uint32_t k = px.world.first[server]; ranks && k < px.world.end[server]; k++)
        if (px.world.server[k] == server && pmix_fence_has(&members, k))
            px.passed[k]++;
    for (uint32_t m = bytes_get_u32(r); m && !r->bad; m--) {
        uint32_t rank = bytes_get_u32(r);
        uint64_t len = bytes_get_u64(r);
        const void *data = bytes_get(r, len);
        if (data && rank < px.world.world)
            record(d, rank, px.passed[rank], data, len);
    }
    if (ranks && !r->bad) {
        struct bytes b = {0};
        say(&b, SAY_FENCE);
        bytes_put_u32(&b, server);
        bytes_put_u64(&b, token);
        bytes_put_u32(&b, n);
        bytes_put(&b, ranks, n * sizeof *ranks);
        put_rest(&b, r);
        link_announce(d, LINK_PMIX, &b);
        bytes_free(&b);
    }
    free(ranks);
}

static void on_server_get(struct daemon *d, uint32_t server, struct bytes_reader *r)
{
    uint64_t token = bytes_get_u64(r);
    uint32_t rank = bytes_get_u32(r);
    char *key = bytes_get_string(r);
    if (rank >= px.world.world) {
        answer_get(server, token, PMIX_WIRE_NOT_FOUND, NULL, 0);
    } else if (px.world.server[rank] == PMIX_ABSENT) {
        answer_from_trace(d, server, token, rank, key ? key : "");
    } else {
        struct bytes b = {0};
        say(&b, SAY_ASK);
        bytes_put_u32(&b, server);
        bytes_put_u64(&b, token);
        bytes_put_u32(&b, rank);
        link_send(d, px.home[px.world.server[rank]], LINK_PMIX, &b);
        bytes_free(&b);
    }
    free(key);
}

static void on_server_told(struct daemon *d, struct bytes_reader *r)
{
    uint64_t id = bytes_get_u64(r);
    uint32_t result = bytes_get_u32(r);
    struct ask **at = &px.asks, *a;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    if (!(a = *at) || r->bad)
        return;
    *at = a->next;
    record(d, a->rank, px.passed[a->rank] + 1, r->data + r->pos, r->len - r->pos);
    tell(d, a, result, r->data + r->pos, r->len - r->pos);
    free(a);
}

static void on_server_finalized(struct daemon *d, uint32_t server, struct bytes_reader *r)
{
    uint64_t token = bytes_get_u64(r);
    uint32_t rank = bytes_get_u32(r);
    struct bytes b = {0};
    if (r->bad || rank >= px.world.world)
        return;
    px.joined[rank] = FINALIZED;
    record(d, rank, px.passed[rank] + 1, r->data + r->pos, r->len - r->pos);
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
    daemon_fail(d, PRISM_EXIT_DAEMON, "the PMIx server of logical node %u cannot go on: %s", logical_node(d, server), text ? text : "?");
    free(text);
}

static void on_server(struct daemon *d, uint32_t server, enum pmix_wire_type type, struct bytes_reader *r)
{
    if (type == PMIX_WIRE_READY) {
        on_server_ready(d, r);
    } else if (type == PMIX_WIRE_CONNECTED) {
        uint32_t rank = bytes_get_u32(r);
        if (rank < px.world.world)
            px.joined[rank] = CONNECTED;
    } else if (type == PMIX_WIRE_FENCE) {
        on_server_fence(d, server, r);
    } else if (type == PMIX_WIRE_GET) {
        on_server_get(d, server, r);
    } else if (type == PMIX_WIRE_TOLD) {
        on_server_told(d, r);
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
    if (!px.early)
        px.early_tail = &px.early;
    *px.early_tail = e;
    px.early_tail = &e->next;
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
        on_ask(d, from, r);
    else if (what == SAY_TOLD)
        on_told(r);
    else if (what == SAY_PUT)
        on_put(r);
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

static int read_log(struct daemon *d, struct prism_error *err)
{
    char path[PATH_MAX];
    struct bytes b = {0};
    snprintf(path, sizeof path, "%s/pmix.log", d->conf->trace);
    if (access(path, F_OK)) /* no rank used PMIx */
        return 0;
    int rc = file_read(path, LOG_LIMIT, &b, err);
    if (!rc)
        rc = (px.log = pmix_log_decode(b.data, b.len, err)) ? 0 : -1;
    bytes_free(&b);
    return rc;
}

/* Open MPI's ranks talk to each other by what they put; those that do not run do not answer. */
static int check_mpi(uint32_t nlive, struct prism_error *err)
{
    if (!px.log || nlive == px.world.world || !pmix_log_mentions(px.log, "pml.base"))
        return 0;
    return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                           "the program communicates by MPI, and %u of its %u ranks would not run: MPI of absent ranks is not played; "
                           "capture works (--prism-phase=capture), and so does a sandbox of all ranks",
                           px.world.world - nlive, px.world.world);
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
        if (!px.world.servers || live[i] / c->gpus_per_node != logical_node(d, last) || home != px.home[last]) {
            last = px.world.servers++;
            px.world.first[last] = live[i];
            px.home[last] = home;
        }
        px.world.end[last] = live[i] + 1;
        px.world.server[live[i]] = last;
    }
}

static void node_name(uint32_t node, char name[32])
{
    snprintf(name, 32, "node%u", node);
}

static char *node_names(const struct conf *c)
{
    uint32_t nodes = (c->world + c->gpus_per_node - 1) / c->gpus_per_node;
    char *all = malloc((size_t)nodes * 32 + 1), *at = all, name[32];
    if (!all)
        abort();
    *at = 0;
    for (uint32_t n = 0; n < nodes; n++) {
        node_name(n, name);
        at += sprintf(at, "%s%s", n ? "," : "", name);
    }
    return all;
}

static void describe_job(struct daemon *d, uint32_t server, struct bytes *job)
{
    struct bytes live = {0};
    uint32_t n = 0;
    char *names = node_names(d->conf);
    for (uint32_t r = px.world.first[server]; r < px.world.end[server]; r++)
        if (px.world.server[r] == server) {
            bytes_put_u32(&live, r);
            n++;
        }
    bytes_put_string(job, px.name);
    bytes_put_u32(job, px.world.world);
    bytes_put_u32(job, d->conf->gpus_per_node);
    bytes_put_string(job, names);
    bytes_put_u32(job, logical_node(d, server));
    bytes_put_u32(job, d->phase == PHASE_CAPTURE);
    bytes_put_u32(job, n);
    bytes_put(job, live.data, live.len);
    bytes_free(&live);
    free(names);
}

static void on_guest(struct daemon *d, uint32_t rank, struct bufferevent *connection)
{
    (void)d;
    struct pmix_node *n = rank < px.world.world ? server_of(rank) : NULL;
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
            px.nodes[s] = pmix_node_create(d, logical_node(d, s), s, &events);
    px.door = pmix_door_create(d, px.name, on_guest, err);
    return px.door ? 0 : -1;
}

static void take_early(struct daemon *d)
{
    while (px.early) {
        struct early *e = px.early;
        struct bytes_reader r = bytes_reader_init(e->message.data, e->message.len);
        px.early = e->next;
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
    px.warned = false;
    px.begun = px.serial;
    if (switched_off())
        return 0;
    px.active = true;
    place_ranks(d, live, nlive);
    int rc = 0;
    if (d->phase != PHASE_CAPTURE)
        rc = read_log(d, err) || check_mpi(nlive, err) ? -1 : 0;
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
    for (struct ask *next; px.asks; px.asks = next) {
        next = px.asks->next;
        free(px.asks);
    }
    free(px.nodes);
    free(px.world.server);
    free(px.world.first);
    free(px.world.end);
    free(px.world.ended);
    free(px.joined);
    free(px.home);
    free(px.passed);
}

/* The variables of Slurm's own PMIx (srun --mpi=pmix) or PMI are of another job. The user's parameters stay. */
static void drop_others(void)
{
    extern char **environ;
    for (char **v = environ; *v;) {
        char *name = strndup(*v, strcspn(*v, "="));
        bool other = name && ((!strncmp(name, "PMIX_", 5) && strncmp(name, "PMIX_MCA_", 9)) || !strncmp(name, "PMI_", 4) ||
                              !strncmp(name, "SLURM_PMI", 9));
        if (other)
            unsetenv(name); /* moves what follows here */
        else
            v++;
        free(name);
    }
}

void pmix_environment(const struct rank *r)
{
    /* As PMIx_server_setup_fork sets, for clients from version 2 to 5. */
    static const char *const uris[] = {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4",
                                       "PMIX_SERVER_URI41"};
    char text[128];
    drop_others();
    unsetenv("PRISM_PMIX");
    if (!px.active || !px.door || !server_of(r->number))
        return;
    uint32_t node = r->number / r->daemon->conf->gpus_per_node;
    setenv("PMIX_NAMESPACE", px.name, 1);
    snprintf(text, sizeof text, "%u", r->number);
    setenv("PMIX_RANK", text, 1);
    snprintf(text, sizeof text, "prism.%u;tcp4://127.0.0.1:%u", node, pmix_door_port(px.door));
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++)
        setenv(uris[i], text, 1);
    node_name(node, text);
    setenv("PMIX_HOSTNAME", text, 1);
    setenv("PMIX_SECURITY_MODE", "native", 1);
    setenv("PMIX_GDS_MODULE", "hash", 1);
    setenv("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", 1);
    /* Open MPI 4 takes a process that neither mpirun nor a resource manager it knows has started for a world of one; Slurm
     * is one it knows, and so is jsrun, by this variable. */
    if (getenv("SLURM_JOBID"))
        setenv("SLURM_STEP_ID", "0", 0); /* a batch script's prism run */
    else
        setenv("JSM_JSRUN_PORT", "1", 0);
    /* Its shared memory is named after the host and the local rank: logical nodes of one machine would share it. */
    if (px.world.servers > 1)
        setenv("OMPI_MCA_btl", "^vader,sm", 0);
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
    char path[PATH_MAX];
    struct bytes b = {0};
    snprintf(path, sizeof path, "%s/pmix.log", trace);
    if (!px.log || !pmix_log_count(px.log)) {
        unlink(path);
        return 0;
    }
    pmix_log_encode(px.log, &b);
    int rc = file_write_atomic(path, b.data, b.len, 0644, err);
    bytes_free(&b);
    return rc;
}
