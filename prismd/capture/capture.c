#include "prismd/capture/capture.h"

#include <stdlib.h>
#include <string.h>

#include "coll/share.h"
#include "coll/synthetic.h"
#include "coll/types.h"
#include "common/log.h"
#include "prismd/capture/channel.h"
#include "prismd/capture/collective.h"
#include "prismd/folding/folding.h"
#include "prismd/link/link.h"
#include "prismd/place.h"
#include "prismd/capture/progress.h"
#include "prismd/capture/record.h"
#include "prismd/capture/registry.h"
#include "prismd/ranks/sched.h"
#include "prismd/gates/watch.h"
#include "trace/payload.h"

static struct payload_writer *payloads;

uint64_t capture_kept(const struct daemon *d, int datatype, uint64_t bytes)
{
    if (d->conf->payload == TRACE_PAYLOAD_NONE)
        return 0;
    return d->conf->payload == TRACE_PAYLOAD_CONTROL ? coll_synthetic_kept(datatype, bytes) : bytes;
}

/* Everything the group received, part after part: what emulation delivers. In control mode the parts that it keeps; a group
 * of which nothing is kept has no payload, and the graph tells that from one that is lost. */
static int keep_output(struct daemon *d, const struct group *g)
{
    struct payload_key key = {g->rank->number, g->comm, g->ordinal, PAYLOAD_OUTPUT};
    struct prism_error err = {0};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->nparts; i++)
        bytes += capture_kept(d, g->parts[i].datatype, g->parts[i].out_bytes);
    if (g->kept || !bytes)
        return 0;
    uint8_t *room = payload_writer_room(payloads, bytes), *to = room;
    for (uint32_t i = 0; i < g->nparts; i++) {
        uint64_t kept = capture_kept(d, g->parts[i].datatype, g->parts[i].out_bytes);
        coll_copy(to, g->rank->region + g->parts[i].out_offset, kept);
        to += kept;
    }
    return payload_writer_put_room(payloads, &key, 1, room, bytes, &err) ? daemon_fail(d, err.code, "%s", err.text) : 0;
}

static void part_served(struct daemon *d, struct group *g)
{
    if (--g->pending || d->stopping)
        return;
    channel_settle(d, g);
    if (!keep_output(d, g) && g->rank->streams[g->stream] == g)
        sched_open(d, g);
}

/* The last hardware queue must stay free: a stream at a closed gate holds one, and with all of them held nothing moves on
 * the device that could open a gate again. */
static int check_waiting_streams(struct daemon *d, const struct rank *r)
{
    uint32_t closed = 0;
    for (uint32_t s = 0; s < r->nstreams; s++)
        closed += r->streams[s] && r->streams[s]->arrived;
    uint32_t queues = place_capture_queues(d->conf);
    if (closed < queues)
        return 0;
    return daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                       "rank %u: %u streams of the program wait in communication at once; capture can serve %u "
                       "(of %u hardware queues, 32 at most and fewer with many ranks on a device, one must stay free); set PRISM_QUEUES to at most 32",
                       r->number, closed, queues - 1, queues);
}

static void on_group_arrived(struct daemon *d, struct group *g)
{
    if (d->stopping || check_waiting_streams(d, g->rank))
        return;
    g->pending = g->nparts + 1; /* one for this function: the group must not open while parts are handed out */
    /* What it receives first: its sends may be the last that others wait for, who then need not keep what they send this one. */
    for (uint32_t i = 0; i < g->nparts; i++)
        if (g->parts[i].op == PRISM_OP_RECV)
            channel_recv(d, g, i);
        else if (g->parts[i].op != PRISM_OP_SEND)
            collective_arrive(d, g, i);
    for (uint32_t i = 0; i < g->nparts; i++)
        if (g->parts[i].op == PRISM_OP_SEND) {
            channel_send(d, g, i);
            g->pending--;
        }
    struct rank *r = g->rank;
    part_served(d, g);
    sched_arrived(d, r);
}

static int refused(struct daemon *d)
{
    return d->refusal.code ? daemon_fail(d, d->refusal.code, "%s", d->refusal.text) : 0;
}

static int on_comm_init(struct daemon *d, struct rank *r, const struct msg_comm_init *m)
{
    return refused(d) ? -1 : registry_comm_init(d, r, m);
}

static void on_opened(struct daemon *d, struct group *g)
{
    const struct group *next = g->next_on_stream;
    progress_opened();
    sched_opened(d, g->rank);
    if (next && next->arrived && !next->pending && !d->stopping) /* it was early, and served */
        sched_open(d, g->next_on_stream);
}

static void on_node(struct daemon *d, struct rank *r, const struct msg_node *m, struct group *g)
{
    if (record_node(d, r, m, g))
        return;
}

static void on_mark(struct daemon *d, struct rank *r, const struct msg_mark *m)
{
    record_mark(d, r, m);
}

static void note_left(struct daemon *d, uint32_t rank)
{
    collective_rank_left(d, rank);
    channel_rank_left(d, rank);
}

static void on_left(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    uint32_t rank = bytes_get_u32(b);
    if (!b->bad && rank < d->conf->world && payloads && !d->stopping)
        note_left(d, rank);
}

static void on_ended(struct daemon *d, struct rank *r)
{
    if (d->stopping)
        return;
    struct bytes b = {0};
    bytes_put_u32(&b, r->number);
    link_broadcast(d, LINK_LEFT, &b);
    bytes_free(&b);
    note_left(d, r->number);
}

const struct phase_ops capture_ops = {
    .name = "capture",
    .comm_init = on_comm_init,
    .comm_split = registry_comm_split,
    .node = on_node,
    .mark = on_mark,
    .arrived = on_group_arrived,
    .opened = on_opened,
    .ended = on_ended,
};

int capture_begin(struct daemon *d, struct prism_error *err)
{
    d->graph = graph_create(d->conf->world, d->conf->gpus_per_node);
    if (!d->graph)
        abort();
    payloads = payload_writer_create(d->conf->trace, d->conf->node, err);
    if (!payloads)
        return -1;
    record_begin(d);
    registry_begin(d);
    folding_begin(d);
    coll_share_begin(0);
    channel_begin(part_served);
    collective_begin(part_served, payloads);
    link_on(LINK_LEFT, on_left);
    return 0;
}

int capture_end(struct daemon *d, bool ok, struct prism_error *err)
{
    record_end();
    registry_end(d);
    folding_end(d);
    channel_end();
    collective_end();
    coll_share_end();
    int rc = 0;
    if (ok && payloads)
        rc = payload_writer_finish(payloads, err);
    else
        payload_writer_abort(payloads);
    payloads = NULL;
    return rc;
}
