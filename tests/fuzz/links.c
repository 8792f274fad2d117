/* links.c - what the nodes of a run tell each other, in every phase: the handlers of capture, calibration and emulation as they
 * are, with the ranks' datagrams and the assistants' answers that lead to what they keep. What is sent to an assistant is sound
 * (order_fault); a phase's message encodes to what it was decoded from.
 *
 * The input: u8 set-up (bits 0-1: phase, bit 2: transport nccl, bit 3: this is node 1, bit 4: folded capture, bit 5: both
 * of the node's ranks live, not one, bit 6: control mode, bit 7: of a trace that has everything), then records of u8 what, u16 length, bytes. What: even, a datagram of a rank of this
 * node (bit 1: which); odd, bit 1 the node that it is from, the rest the type of a link message; the last four
 * are answers of an assistant: an id, a time, done, and a rank's end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/duration.h"
#include "common/log.h"
#include "prismd/assistants/assist_process.h"
#include "prismd/capture/capture.h"
#include "prismd/capture/enough.h"
#include "prismd/capture/hang.h"
#include "prismd/capture/progress.h"
#include "prismd/folding/folding.h"
#include "prismd/gates/watch.h"
#include "prismd/link/link.h"
#include "prismd/local.h"
#include "prismd/phase_message.h"
#include "prismd/predict/durations.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/sched.h"
#include "prismd/ranks/tasks.h"
#include "prismd/replay/emulate.h"
#include "prismd/report/result.h"
#include "prismd/store.h"
#include "prismd/switching/movers.h"
#include "tests/fuzz/daemon_double.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rank_double.h"
#include "tests/fuzz/watch_double.h"
#include "trace/payload.h"

#define FUZZ_HEAD 1u /* the set-up */
#include "tests/fuzz/records.h"

const uint32_t fuzz_unit_runs = 10000;

#define WORLD      4u
#define ITERATIONS 3u

enum answer { ANSWER_ID, ANSWER_TIME, ANSWER_DONE, RANK_END, ANSWERS };
#define ANSWERS_FROM (64u - ANSWERS) /* not LINK_TYPES, which grows */

/* ---- The rest of the daemon ---- */

void prism_log(enum prism_log_level level, const char *fmt, ...)
{
}

static link_handler handlers[LINK_TYPES];

void link_on(enum link_type type, link_handler handler)
{
    handlers[type] = handler;
}

static void hear(struct daemon *d, uint32_t from, uint32_t type, const void *data, size_t len)
{
    struct bytes_reader r = bytes_reader_init(data, len);
    if (link_allowed(type, d->conf->node, from) && handlers[type])
        handlers[type](d, from, &r);
}

void link_send(struct daemon *d, uint32_t node, enum link_type type, const struct bytes *body)
{
    if (node == d->conf->node)
        hear(d, node, type, body->data, body->len);
}

void link_broadcast(struct daemon *d, enum link_type type, const struct bytes *body)
{
}

void link_announce(struct daemon *d, enum link_type type, const struct bytes *body)
{
    hear(d, d->conf->node, type, body->data, body->len);
}

int64_t link_clock_offset_ns(const struct daemon *d, int64_t *error_ns)
{
    return 0;
}

void local_stop(struct daemon *d)
{
    d->stopping = true;
}

bool store_has_waiting(const struct store *s, uint32_t rank, char *key, size_t size)
{
    if (size)
        snprintf(key, size, "key");
    return rank & 1;
}

void store_rank_connected(struct store *s, uint32_t port, uint32_t rank)
{
}

void rank_send_ready(struct rank *r, struct msg_comm_ready *ready, const int32_t *sandbox)
{
    r->host_waits = HOST_RUNS;
    for (uint32_t i = 0; i < ready->nsandbox; i++)
        if (sandbox[i] < 0 || sandbox[i] >= ready->size)
            abort();
}

bool conf_is_sandbox(const struct conf *c, uint32_t rank)
{
    return !rank;
}

void movers_hear(struct daemon *d)
{
}

void movers_joined(struct daemon *d, struct rank *r, struct resident_operation op, const int32_t *members, uint32_t n)
{
}

bool movers_is_in(const struct daemon *d, const struct rank *r)
{
    return true;
}

bool movers_switch(void)
{
    return false;
}

struct resident_counts movers_count(void)
{
    return (struct resident_counts){0};
}

void sched_want_start(struct daemon *d, struct rank *r)
{
}

void sched_end(struct daemon *d)
{
}

void sched_blocked(struct daemon *d, struct rank *r)
{
}

void sched_running(struct daemon *d, struct rank *r)
{
}

void sched_arrived(struct daemon *d, struct rank *r)
{
}

void sched_opened(struct daemon *d, struct rank *r)
{
}

struct payload_writer *payload_writer_create(const char *dir, uint32_t node, struct prism_error *err)
{
    static int something;
    return (struct payload_writer *)&something;
}

int payload_writer_put(struct payload_writer *w, struct payload_key key, const void *data, size_t len, struct prism_error *err)
{
    return 0;
}

void *payload_writer_room(struct payload_writer *w, size_t len)
{
    return malloc(len);
}

int payload_writer_put_room(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, void *room, size_t len,
                            struct prism_error *err)
{
    free(room);
    return 0;
}

int payload_writer_finish(struct payload_writer *w, struct prism_error *err)
{
    return 0;
}

void payload_writer_abort(struct payload_writer *w)
{
}

struct payload_reader *payload_reader_open_some(const char *dir, uint32_t nodes, int (*keep)(void *ctx, struct payload_key key), void *ctx,
                                                struct prism_error *err)
{
    static int something;
    return (struct payload_reader *)&something;
}

void payload_reader_close(struct payload_reader *r)
{
}

int64_t payload_reader_size(const struct payload_reader *r, struct payload_key key)
{
    return key.ordinal * 8;
}

int64_t payload_reader_get(struct payload_reader *r, struct payload_key key, void *out, size_t cap, struct prism_error *err)
{
    memset(out, 1, cap);
    return (int64_t)cap;
}

/* ---- Gates ---- */

void watch_delay_rank(struct watch *w, const struct rank *r, int64_t ns)
{
}

void watch_open_due(struct watch *w)
{
}

void watch_mark_ready(struct group *g)
{
}

void watch_ring(struct watch *w)
{
}

void watch_drop_writes(struct watch *w)
{
}

/* ---- Assistants ---- */

struct assistant {
    bool made[WORLD]; /* by communicator */
    struct order_create as[WORLD];
    uint32_t gates[ORDER_GATES];
};

static struct assistant assistant;
static struct assistant_events answers;

void watch_write_at(struct watch *w, uint32_t *word, uint32_t value, int64_t ns)
{
    if (word < assistant.gates || word >= assistant.gates + ORDER_GATES)
        abort();
}

struct assistant *assistant_start(struct daemon *d, uint32_t number, uint32_t device, const struct assistant_events *events,
                                  struct prism_error *err)
{
    answers = *events;
    assistant = (struct assistant){0};
    return &assistant;
}

void assistant_end(struct assistant *a)
{
}

void assistant_order(struct assistant *a, const void *order, size_t size)
{
    const struct order_header *o = order;
    if (a != &assistant || o->size != size || o->communicator >= WORLD)
        abort();
    const char *fault = order_fault(o, a->made[o->communicator] ? &a->as[o->communicator] : NULL);
    if (fault) {
        fprintf(stderr, "an order of type %u: %s\n", o->type, fault);
        abort();
    }
    a->made[o->communicator] = o->type != ORDER_DESTROY;
    if (o->type == ORDER_CREATE)
        memcpy(&a->as[o->communicator], o, sizeof a->as[0]);
}

uint32_t *assistant_gate(struct assistant *a, uint32_t gate)
{
    return &a->gates[gate];
}

pid_t assistant_pid(const struct assistant *a)
{
    return 0;
}

void assistant_reaped(struct assistant *a, int status)
{
}

void assistant_count(const struct assistant *a, struct order_counts *sum)
{
}

char *assistant_find_library(pid_t pid, uint64_t address)
{
    return strdup("");
}

/* ---- The recorded job ---- */

/* World 4: everyone, and the pairs 0-1 and 2-3. An iteration: an all-reduce and a reduce of all, a message each way in the pair. */
static void record_rank(struct graph *g, uint32_t rank, const int global[2])
{
    int32_t other = 1 - (int32_t)rank % 2;
    const struct graph_part sum = {PRISM_OP_ALLREDUCE, COLL_FLOAT32, COLL_REDOP_SUM, 0, -1, 8},
                            to_3 = {PRISM_OP_REDUCE, COLL_FLOAT32, COLL_REDOP_AVG, 0, 3, 4},
                            pair[2] = {{PRISM_OP_SEND, COLL_FLOAT32, 0, 0, other, 4}, {PRISM_OP_RECV, COLL_FLOAT32, 0, 0, other, 4}};
    if (graph_set_member(g, rank, 0, global[0], (int32_t)rank) || graph_set_member(g, rank, 1, global[1], (int32_t)rank % 2))
        abort();
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        struct graph_node all = {.kind = GRAPH_COMM, .ordinal = 2 * i}, root = {.kind = GRAPH_COMM, .ordinal = 2 * i + 1},
                          two = {.kind = GRAPH_COMM, .comm = 1, .ordinal = i, .stream = 1};
        if (graph_add_node(g, rank, &all, &sum, 1) || graph_add_node(g, rank, &root, &to_3, 1) || graph_add_node(g, rank, &two, pair, 2))
            abort();
    }
}

static struct graph *record(void)
{
    struct prism_error err;
    struct graph *g = graph_create(WORLD, 2);
    int all = graph_add_comm(g, (int32_t[]){0, 1, 2, 3}, 4);
    int pairs[2] = {graph_add_comm(g, (int32_t[]){0, 1}, 2), graph_add_comm(g, (int32_t[]){2, 3}, 2)};
    for (uint32_t r = 0; r < WORLD; r++)
        record_rank(g, r, (int[]){all, pairs[r / 2]});
    if (graph_check(g, &err) || graph_find_iterations(g, &err))
        abort();
    graph_find_classes(g);
    return g;
}

/* ---- One phase ---- */

static struct results results;

static void on_done(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct prism_error err = {0};
    struct tasks tasks = {0};
    if (bytes_get_u32(b))
        return;
    tasks_take(&tasks, b);
    int rc = d->phase == PHASE_CAPTURE ? result_take_capture(d, from, b, &err) : result_take_emulate(d, from, b, &results, &err);
    if (rc)
        daemon_fail(d, err.code, "%s", err.text);
    for (uint32_t i = 0; i < results.nranks; i++)
        if (results.ranks[i].rank >= d->conf->world)
            abort();
}

static void on_phase(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct phase_message m;
    struct bytes again = {0};
    if (phase_message_take(&m, b, d->conf->world))
        return;
    phase_message_put(&m, &again);
    if (again.len != b->len || memcmp(again.data, b->data, again.len))
        abort();
    bytes_free(&again);
    phase_message_clear(&m);
}

static void rank_end(struct daemon *d, uint32_t number)
{
    struct rank *r = d->ranks[number % WORLD];
    if (!r || r->state == RANK_ENDED)
        return;
    r->state = RANK_ENDED;
    d->ops->ended(d, r);
}

static void answer(struct daemon *d, uint32_t what, struct bytes_reader *b)
{
    uint8_t id[ORDER_ID_LEN] = {0};
    uint32_t number = bytes_get_u32(b);
    if (what == RANK_END)
        rank_end(d, number);
    else if (!answers.made || d->stopping)
        return;
    else if (what == ANSWER_ID)
        answers.made(d, number, id);
    else if (what == ANSWER_TIME)
        answers.timed(d, number, (int64_t)bytes_get_u64(b));
    else
        answers.done(d);
}

static struct rank *local_rank(const struct daemon *d, uint32_t which)
{
    struct rank *first = NULL;
    for (uint32_t i = 0; i < WORLD; i++)
        if (d->ranks[i] && (first || !which))
            return d->ranks[i];
        else if (d->ranks[i])
            first = d->ranks[i];
    return first;
}

static void play(struct daemon *d, struct bytes_reader *in)
{
    while (!d->stopping) {
        uint8_t what = bytes_get_u8(in);
        uint16_t len = bytes_get_u16(in);
        const void *data = bytes_get(in, len);
        uint32_t type = what >> 2;
        if (!data)
            return;
        struct bytes_reader message = bytes_reader_init(data, len);
        if (!(what & 1) && local_rank(d, 0))
            datagram(d, local_rank(d, what >> 1 & 1), data, len);
        else if (what & 1 && type >= ANSWERS_FROM)
            answer(d, type - ANSWERS_FROM, &message);
        else if (what & 1 && type < LINK_TYPES && (what >> 1 & 1) != d->conf->node)
            hear(d, what >> 1 & 1, type, data, len);
        open_gates(d);
    }
}

static void begin(struct daemon *d, const uint32_t *live, uint32_t nlive)
{
    struct prism_error err = {0};
    memset(handlers, 0, sizeof handlers);
    nto_open = 0;
    answers = (struct assistant_events){0};
    hang_begin(d);
    progress_begin(d);
    enough_begin(d);
    link_on(LINK_DONE, on_done);
    link_on(LINK_PHASE, on_phase);
    if (d->phase == PHASE_CAPTURE ? capture_begin(d, &err) : emulate_begin(d, live, nlive, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static void end(struct daemon *d)
{
    struct bytes result = {0};
    hang_end(d);
    if (d->phase == PHASE_CAPTURE) {
        capture_end(d, !d->failure.code, NULL);
        result_put_capture(d, &result);
    } else {
        result_put_emulate(d, &result);
    }
    for (uint32_t i = 0; i < WORLD; i++)
        if (d->ranks[i])
            free_rank(d->ranks[i]);
    results_clear(&results);
    graph_destroy(d->graph);
    bytes_free(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char trace[] = "/nonexistent", device[] = "0", *devices[] = {device, device, device};
    struct coll_network network;
    struct prism_error err = {0};
    struct bytes_reader in = bytes_reader_init(data, len);
    uint8_t set = bytes_get_u8(&in);
    struct rank *ranks[WORLD] = {0};
    uint32_t live[WORLD], nlive = 0, sandbox = 0;
    struct conf conf = {.world = WORLD, .gpus_per_node = 2, .nodes = 2, .node = set >> 3 & 1, .trace = trace, .devices = devices,
                        .ndevices = 3, .assistants = 1, .iterations = 1, .sandbox = &sandbox, .nsandbox = 1,
                        .on_divergence = CONF_WARN};
    struct daemon d = {.conf = &conf, .phase = (set & 3) % 3 + PHASE_CAPTURE, .ranks = ranks, .network = &network, .trace_nodes = 1};
    conf.payload = set & 64 ? TRACE_PAYLOAD_CONTROL : TRACE_PAYLOAD_FULL;
    d.trace_payload = set & 128 ? TRACE_PAYLOAD_FULL : conf.payload;
    d.transport = set & 4 && d.phase != PHASE_CAPTURE ? TRANSPORT_NCCL : TRANSPORT_PACED;
    d.ops = d.phase == PHASE_CAPTURE ? &capture_ops : &emulate_ops;
    coll_network_default(&network);
    if (d.phase != PHASE_CAPTURE)
        d.graph = record();
    else if (set & 16)
        conf.fold = folding_make("tp:2,dp:2", "dp", WORLD, &sandbox, 1, &err);
    for (uint32_t i = 0; i < WORLD; i++)
        if (d.phase == PHASE_CAPTURE ? !conf.fold || fold_is_live(conf.fold, i) : set & 32 || !(i & 1))
            live[nlive++] = i;
    for (uint32_t i = 0; i < nlive; i++)
        if (live[i] / 2 == conf.node)
            ranks[live[i]] = make_rank(&d, live[i]);
    begin(&d, live, nlive);
    play(&d, &in);
    end(&d);
    fold_destroy(conf.fold);
    coll_network_clear(&network);
    return 0;
}
