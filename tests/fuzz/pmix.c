/* pmix.c - what prismd is told of PMIx: messages of its servers (which carry what the program's ranks asked for) and of other
 * nodes, through pmix.c, values, fences and log as they are. The input: u8 phase (even: capture, all ranks run; odd:
 * emulation of three), then records of u8 from (even: a server of this node, number in bits 1-2 and type in bits 3-5; odd:
 * another node's message, type in bits 3-5), u16 length, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prismd/folding/folding.h"
#include "prismd/link/link.h"
#include "prismd/place.h"
#include "prismd/pmix/pmix.h"
#include "prismd/pmix/pmix_door.h"
#include "prismd/pmix/pmix_identity.h"
#include "prismd/pmix/pmix_private.h"
#include "prismd/pmix/pmix_trace.h"
#include "prismd/ranks/tasks.h"
#include "tests/fuzz/daemon_double.h"
#include "tests/fuzz/fuzz.h"

#define FUZZ_HEAD 1u /* the phase */
#include "tests/fuzz/records.h"

const uint32_t fuzz_unit_runs = 60000;

#define WORLD 8u

/* ---- The rest of the daemon ---- */

static link_handler handler;
static const struct pmix_node_events *events;
static volatile uint8_t read_bytes; /* so that every byte handed on is read */

struct pmix_node {
    bool started;
};

void link_on(enum link_type type, link_handler f)
{
    handler = f;
}

static void read_all(const struct bytes *b)
{
    for (size_t i = 0; i < b->len; i++)
        read_bytes ^= b->data[i];
}

void link_send(struct daemon *d, uint32_t node, enum link_type type, const struct bytes *body)
{
    struct bytes_reader r = bytes_reader_init(body->data, body->len);
    if (node == d->conf->node)
        handler(d, node, &r);
    else
        read_all(body);
}

void link_announce(struct daemon *d, enum link_type type, const struct bytes *body)
{
    link_send(d, d->conf->node, type, body);
}

struct pmix_node *pmix_node_create(struct daemon *d, uint32_t node, uint32_t id, const struct pmix_node_events *on)
{
    struct pmix_node *n = calloc(1, sizeof *n);
    if (!n)
        abort();
    events = on;
    return n;
}

void pmix_node_destroy(struct pmix_node *n)
{
    free(n);
}

void pmix_node_connect(struct pmix_node *n, struct bufferevent *rank)
{
}

bool pmix_node_started(const struct pmix_node *n)
{
    return n->started;
}

void pmix_node_send(struct pmix_node *n, enum pmix_wire_type type, const struct bytes *body)
{
    n->started = true;
    read_all(body);
}

bool pmix_node_reaped(struct pmix_node *n, pid_t pid, int status)
{
    return false;
}

void pmix_node_name(const struct conf *c, uint32_t node, char name[NAMES_NODE_MAX])
{
    snprintf(name, NAMES_NODE_MAX, "n%u", node);
}

char *pmix_node_names(const struct conf *c)
{
    return strdup("n0,n1,n2,n3");
}

void pmix_set_variables(const struct rank *r, const char *name, uint16_t port)
{
}

struct pmix_door *pmix_door_create(struct daemon *d, const char *name, pmix_door_handler h, struct prism_error *err)
{
    static int something;
    return (struct pmix_door *)&something;
}

void pmix_door_destroy(struct pmix_door *door)
{
}

uint16_t pmix_door_port(const struct pmix_door *door)
{
    return 1;
}

int pmix_trace_read(const char *trace, uint32_t world, uint32_t nlive, struct pmix_log **log, struct prism_error *err)
{
    *log = pmix_log_create(world);
    pmix_log_add(*log, 1, 0, "key\0value", 9);
    pmix_log_add(*log, 1, 2, "key\0later", 9);
    return 0;
}

int pmix_trace_write(const char *trace, const struct pmix_log *log, struct prism_error *err)
{
    return 0;
}

bool folding_allows_pmix(struct daemon *d, uint32_t rank)
{
    return true;
}

uint32_t place_capture_node(const struct conf *c, uint32_t rank)
{
    return rank / 4;
}

uint32_t place_live_node(const struct conf *c, uint32_t i, uint32_t n)
{
    return i == n - 1;
}

void tasks_start_deferred(struct daemon *d)
{
}

/* ---- Properties ---- */

/* Whether a FENCE message's list of ranks, in any order, has this one. */
static bool lists(const uint8_t *data, size_t len, uint32_t rank)
{
    struct bytes_reader r = bytes_reader_init(data, len);
    bytes_get_u64(&r);
    uint32_t n = bytes_get_u32(&r);
    if (r.bad || n > (len - r.pos) / 4)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t one = bytes_get_u32(&r);
        if (one == rank || one == PMIX_EVERYONE)
            return true;
    }
    return false;
}

/* Who is in a fence has one more behind it, and nobody else. */
static void fence(struct daemon *d, uint32_t server, const uint8_t *data, size_t len)
{
    struct bytes_reader r = bytes_reader_init(data, len);
    uint32_t before[WORLD];
    memcpy(before, px.passed, sizeof before);
    events->message(d, server, PMIX_WIRE_FENCE, &r);
    for (uint32_t k = 0; k < WORLD; k++)
        if (px.passed[k] != before[k] + (px.world.server[k] == server && lists(data, len, k)))
            abort();
}

/* What was kept can be written, and read again. */
static void check_log(void)
{
    struct bytes out = {0};
    pmix_log_encode(px.log, &out);
    struct pmix_log *back = pmix_log_decode(out.data, out.len, NULL);
    if (!back || pmix_log_count(back) != pmix_log_count(px.log))
        abort();
    pmix_log_destroy(back);
    bytes_free(&out);
}

static void record(struct daemon *d, uint8_t from, const uint8_t *data, size_t len)
{
    static const enum pmix_wire_type types[] = {PMIX_WIRE_READY, PMIX_WIRE_CONNECTED, PMIX_WIRE_FENCE, PMIX_WIRE_GET,
                                                PMIX_WIRE_TOLD, PMIX_WIRE_FINALIZED, PMIX_WIRE_ABORT, PMIX_WIRE_FAILED};
    struct bytes message = {0};
    uint32_t server = from >> 1 & 3, type = from >> 3 & 7;
    if (from & 1) {
        pmix_say(&message, (enum pmix_message)type);
        bytes_put(&message, data, len);
    } else {
        bytes_put(&message, data, len);
    }
    bytes_put_u8(&message, 0);
    message.len--;
    struct bytes_reader r = bytes_reader_init(message.data, message.len);
    if (from & 1)
        handler(d, 1, &r);
    else if (server < px.world.servers && px.nodes[server] && types[type] == PMIX_WIRE_FENCE)
        fence(d, server, message.data, message.len);
    else if (server < px.world.servers && px.nodes[server])
        events->message(d, server, types[type], &r);
    bytes_free(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint32_t all[WORLD] = {0, 1, 2, 3, 4, 5, 6, 7}, some[] = {0, 3, 5};
    static const struct phase_ops ops = {.name = "fuzz"};
    struct conf conf = {.world = WORLD, .gpus_per_node = 2, .nodes = 2};
    struct rank one = {.number = 0}, *ranks[WORLD] = {&one};
    struct daemon d = {.conf = &conf, .ops = &ops, .ranks = ranks};
    struct bytes_reader in = bytes_reader_init(data, len);
    bool capture = !(bytes_get_u8(&in) & 1);
    d.phase = capture ? PHASE_CAPTURE : PHASE_EMULATE;
    pmix_init();
    pmix_name_phase(&d);
    if (pmix_begin(&d, capture ? all : some, capture ? WORLD : 3, NULL))
        abort();
    px.warned = true; /* once is enough */
    while (!d.stopping) {
        uint8_t from = bytes_get_u8(&in);
        uint16_t n = bytes_get_u16(&in);
        const void *body = bytes_get(&in, n);
        if (!body)
            break;
        record(&d, from, body, n);
    }
    one.exit_status = len & 1 ? 256 : 0;
    pmix_rank_ended(&d, &one);
    check_log();
    pmix_end(&d);
    return 0;
}
