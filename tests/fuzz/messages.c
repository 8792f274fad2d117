/* messages.c - what prismd is told in capture: datagrams of two ranks and messages of another node, through dispatch, registry,
 * channel and collective as they are; the rest of the daemon is stood in for below. The input: records of u8 from (even:
 * rank 0 or 1, odd: a link message, the rest of the number is its type), u16 length, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prismd/capture/capture.h"
#include "prismd/ranks/dispatch.h"
#include "prismd/folding/folding.h"
#include "prismd/folding/folding_spread.h"
#include "prismd/link/link.h"
#include "prismd/capture/membership.h"
#include "prismd/switching/movers.h"
#include "prismd/place.h"
#include "prismd/capture/progress.h"
#include "prismd/capture/record.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/sched.h"
#include "prismd/store.h"
#include "prismd/gates/watch.h"
#include "tests/fuzz/daemon_double.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rank_double.h"
#include "tests/fuzz/watch_double.h"
#include "trace/payload.h"

#define FUZZ_HEAD 0u
#include "tests/fuzz/records.h"

const uint32_t fuzz_unit_runs = 30000;
extern bool fuzz_messages_refused;
bool fuzz_messages_refused; /* the last input, for message_seeds.c */

#define WORLD 4u

/* ---- The rest of the daemon ---- */

static link_handler handlers[LINK_TYPES];

void link_on(enum link_type type, link_handler handler)
{
    handlers[type] = handler;
}

void link_send(struct daemon *d, uint32_t node, enum link_type type, const struct bytes *body)
{
    struct bytes_reader r = bytes_reader_init(body->data, body->len);
    if (node == d->conf->node && handlers[type])
        handlers[type](d, node, &r);
}

void link_broadcast(struct daemon *d, enum link_type type, const struct bytes *body)
{
}

void link_announce(struct daemon *d, enum link_type type, const struct bytes *body)
{
    link_send(d, d->conf->node, type, body);
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

void movers_hear(struct daemon *d)
{
}

void movers_joined(struct daemon *d, struct rank *r, struct resident_operation op, const int32_t *members, uint32_t n)
{
}

void store_rank_connected(struct store *s, uint32_t port, uint32_t rank)
{
}

void rank_send_ready(struct rank *r, struct msg_comm_ready *ready, const int32_t *sandbox)
{
    r->host_waits = HOST_RUNS;
}

bool conf_is_sandbox(const struct conf *c, uint32_t rank)
{
    return !rank;
}

uint32_t place_capture_node(const struct conf *c, uint32_t rank)
{
    return rank / 2;
}

uint32_t place_capture_queues(const struct conf *c)
{
    return 32;
}

/* All ranks run. */
void folding_begin(struct daemon *d)
{
}

void folding_end(struct daemon *d)
{
}

uint32_t folding_live_members(const struct daemon *d, int32_t global, const uint32_t **stand_ins)
{
    *stand_ins = NULL;
    return d->graph->comms[global].size;
}

bool folding_has_root(struct daemon *d, const struct graph_comm *c, const struct msg_part *what)
{
    return true;
}

void folding_send(struct daemon *d, const struct group *g, uint32_t part, folding_message message, void *arg)
{
    message(arg, g->rank->comms[g->comm].rank, g->parts[part].peer);
}

void folding_spread_note(const struct daemon *d, const struct graph_comm *c, const uint32_t *stand_ins, const struct msg_part *what,
                         const void *const *inputs)
{
}

void progress_opened(void)
{
}

struct payload_writer *payload_writer_create(const char *dir, uint32_t node, struct prism_error *err)
{
    static int something;
    return (struct payload_writer *)&something;
}

static volatile uint8_t read_bytes; /* so that every byte handed on is read */

int payload_writer_put(struct payload_writer *w, struct payload_key key, const void *data, size_t len, struct prism_error *err)
{
    for (size_t i = 0; i < len; i++)
        read_bytes ^= ((const uint8_t *)data)[i];
    return 0;
}

void *payload_writer_room(struct payload_writer *w, size_t len)
{
    void *room = malloc(len);
    return room ? room : (abort(), NULL);
}

int payload_writer_put_room(struct payload_writer *w, const struct payload_key *keys, uint32_t nkeys, void *room, size_t len,
                            struct prism_error *err)
{
    for (uint32_t i = 0; i < nkeys; i++)
        payload_writer_put(w, keys[i], room, len, err);
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

/* ---- One capture ---- */

static void play(struct daemon *d, struct bytes_reader *in)
{
    while (!d->stopping) {
        uint8_t from = bytes_get_u8(in);
        uint16_t len = bytes_get_u16(in);
        const void *data = bytes_get(in, len);
        if (!data)
            return;
        if (!(from & 1)) {
            datagram(d, d->ranks[from >> 1 & 1], data, len);
        } else if (from >> 1 < LINK_TYPES && handlers[from >> 1]) {
            struct bytes_reader message = bytes_reader_init(data, len);
            handlers[from >> 1](d, 1, &message);
        }
        open_gates(d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct conf conf = {.world = WORLD, .gpus_per_node = 2, .nodes = 2};
    struct rank *ranks[WORLD] = {0};
    struct daemon d = {.conf = &conf, .phase = PHASE_CAPTURE, .ops = &capture_ops, .ranks = ranks};
    struct bytes_reader in = bytes_reader_init(data, len);
    ranks[0] = make_rank(&d, 0);
    ranks[1] = make_rank(&d, 1);
    if (capture_begin(&d, NULL))
        abort();
    nto_open = 0;
    play(&d, &in);
    for (uint32_t i = 0; i < 2; i++)
        record_count_iterations(&d, i, ranks[i]->nodes);
    fuzz_messages_refused = d.failure.code;
    capture_end(&d, !d.failure.code, NULL);
    if (!graph_find_iterations(d.graph, NULL))
        graph_find_marked_iterations(d.graph, record_marks(), 100, len % 3);
    free_rank(ranks[0]);
    free_rank(ranks[1]);
    graph_destroy(d.graph);
    return 0;
}
