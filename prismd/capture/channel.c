#include "prismd/capture/channel.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "coll/share.h"
#include "coll/types.h"
#include "prismd/folding/folding.h"
#include "prismd/link/link.h"
#include "prismd/place.h"
#include "prismd/switching/movers.h"

struct channel_key {
    int32_t global;   /* communicator */
    int32_t from, to; /* ranks in it */
    uint32_t sequence;
};

/* Bytes that several letters may have in common: what a rank sends as stand-in for many. */
struct blob {
    uint32_t references;
    uint8_t bytes[];
};

/* A send without its receive, whose bytes lie in the sender's region or here; or a receive without its send. */
struct letter {
    struct channel_key key;
    struct blob *data;   /* of a send: one reference */
    struct group *stays; /* of a send: its group, in whose region the bytes are; not to be touched when it may be gone, at the end */
    uint64_t bytes;
    struct group *group; /* of a receive */
    uint32_t part;       /* of either group */
    UT_hash_handle hh;
};

static struct letter *letters;
static channel_delivered on_delivered;
static uint8_t *has_left; /* by world rank */

static struct letter *find(const struct channel_key *key)
{
    struct letter *l;
    HASH_FIND(hh, letters, key, sizeof *key, l);
    return l;
}

static struct letter *add(const struct channel_key *key)
{
    struct letter *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->key = *key;
    HASH_ADD(hh, letters, key, sizeof l->key, l);
    return l;
}

static void release(struct blob *blob)
{
    if (blob && !--blob->references)
        free(blob);
}

static void drop(struct letter *l)
{
    HASH_DEL(letters, l);
    release(l->data);
    free(l);
}

/* For context switching: `who`, of two communicator ranks, has come to this receive. Who sends waits for nobody, and comes when it is
 * delivered. */
static void meet(struct daemon *d, const struct group *g, uint32_t part, int32_t from, int32_t who)
{
    const struct membership *m = &g->rank->comms[g->comm];
    const struct graph_comm *c = &d->graph->comms[m->global];
    const int32_t pair[2] = {c->ranks[from], c->ranks[m->rank]};
    struct rank *r = d->ranks[c->ranks[who]];
    struct resident_operation op = {.comm = m->global, .sequence = g->sequence[part], .from = from + 1, .to = m->rank + 1};
    if (r && from != m->rank)
        movers_joined(d, r, op, pair, 2);
}

static int deliver(struct daemon *d, struct group *g, uint32_t part, const void *data, uint64_t bytes, int from)
{
    const struct msg_part *p = &g->parts[part];
    if (bytes != p->out_bytes)
        return daemon_fail(d, PRISM_EXIT_RANK, "rank %u: ncclRecv of %llu bytes from communicator rank %d, which sent %llu",
                           g->rank->number, (unsigned long long)p->out_bytes, from, (unsigned long long)bytes);
    coll_copy(g->rank->region + p->out_offset, data, bytes);
    meet(d, g, part, from, from);
    on_delivered(d, g);
    return 0;
}

static void keep(struct letter *l, const void *data, struct blob **blob)
{
    if (!*blob) {
        *blob = malloc(sizeof **blob + l->bytes);
        if (!*blob)
            abort();
        (*blob)->references = 1; /* the caller's */
        coll_copy((*blob)->bytes, data, l->bytes);
    }
    (*blob)->references++;
    l->data = *blob;
    l->stays = NULL;
}

/* sender: its group, if it is of this node; else the bytes are about to go. */
static void take_send(struct daemon *d, const struct channel_key *key, const void *data, uint64_t bytes, struct group *sender,
                      uint32_t sent)
{
    struct letter *l = find(key);
    if (l && !l->group) {
        daemon_fail(d, PRISM_EXIT_DAEMON, "malformed message (send %u from %d to %d of communicator %d came twice)", key->sequence,
                    key->from, key->to, key->global);
        return;
    }
    if (l) {
        struct group *g = l->group;
        uint32_t part = l->part;
        drop(l);
        deliver(d, g, part, data, bytes, key->from);
        return;
    }
    l = add(key);
    l->bytes = bytes;
    if (sender) {
        l->stays = sender;
        l->part = sent;
        sender->staying++;
        return;
    }
    struct blob *blob = NULL;
    keep(l, data, &blob);
    release(blob);
}

static void on_p2p(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    (void)from;
    struct channel_key key = {0};
    key.global = (int32_t)bytes_get_u32(b);
    key.from = (int32_t)bytes_get_u32(b);
    key.to = (int32_t)bytes_get_u32(b);
    key.sequence = bytes_get_u32(b);
    uint64_t bytes = bytes_get_u64(b);
    const void *data = bytes_get(b, bytes);
    if (data && d->phase == PHASE_CAPTURE && !d->stopping)
        take_send(d, &key, data, bytes, NULL, 0);
}

struct sending {
    struct daemon *daemon;
    struct group *group;
    uint32_t part;
    struct blob *blob; /* settling: one reference, once the bytes were kept */
};

static struct channel_key key_of(const struct sending *s, int32_t from, int32_t to)
{
    const struct group *g = s->group;
    return (struct channel_key){g->rank->comms[g->comm].global, from, to, g->sequence[s->part]};
}

static void send_message(void *arg, int32_t from, int32_t to)
{
    struct sending *s = arg;
    struct daemon *d = s->daemon;
    struct group *g = s->group;
    const struct msg_part *p = &g->parts[s->part];
    struct channel_key key = key_of(s, from, to);
    uint32_t node = place_capture_node(d->conf, (uint32_t)d->graph->comms[key.global].ranks[to]);
    const void *data = g->rank->region + p->in_offset;
    if (node == d->conf->node) {
        take_send(d, &key, data, p->in_bytes, g, s->part);
        return;
    }
    struct bytes b = {0};
    bytes_put_u32(&b, (uint32_t)key.global);
    bytes_put_u32(&b, (uint32_t)key.from);
    bytes_put_u32(&b, (uint32_t)key.to);
    bytes_put_u32(&b, key.sequence);
    bytes_put_u64(&b, p->in_bytes);
    bytes_put(&b, data, p->in_bytes);
    link_send(d, node, LINK_P2P, &b);
    bytes_free(&b);
}

void channel_send(struct daemon *d, struct group *g, uint32_t part)
{
    struct sending s = {.daemon = d, .group = g, .part = part};
    folding_send(d, g, part, send_message, &s);
}

static void settle_message(void *arg, int32_t from, int32_t to)
{
    struct sending *s = arg;
    const struct channel_key key = key_of(s, from, to);
    struct letter *l = find(&key);
    if (!l || l->stays != s->group)
        return;
    keep(l, s->group->rank->region + s->group->parts[s->part].in_offset, &s->blob);
    s->group->staying--;
}

void channel_settle(struct daemon *d, struct group *g)
{
    for (uint32_t i = 0; i < g->nparts && g->staying; i++) {
        struct sending s = {.daemon = d, .group = g, .part = i};
        if (g->parts[i].op != PRISM_OP_SEND)
            continue;
        folding_send(d, g, i, settle_message, &s);
        release(s.blob);
    }
}

/* Only the keys of receives are this node's own. */
static void look_for_left(struct daemon *d, const struct letter *l)
{
    if (!has_left || !l->group || l->key.from == l->key.to) /* what it sends itself comes with its group */
        return;
    int from = d->graph->comms[l->key.global].ranks[l->key.from];
    if (has_left[from])
        daemon_fail(d, PRISM_EXIT_RANK, "rank %d has ended, but rank %u waits for it in Recv", from, l->group->rank->number);
}

void channel_rank_left(struct daemon *d, uint32_t rank)
{
    if (!has_left)
        has_left = calloc(d->conf->world, 1);
    if (!has_left)
        abort();
    has_left[rank] = 1;
    for (struct letter *l = letters; l && !d->stopping; l = l->hh.next)
        look_for_left(d, l);
}

void channel_recv(struct daemon *d, struct group *g, uint32_t part)
{
    const struct msg_part *p = &g->parts[part];
    const struct membership *m = &g->rank->comms[g->comm];
    struct channel_key key = {m->global, p->peer, m->rank, g->sequence[part]};
    struct letter *l = find(&key);
    meet(d, g, part, p->peer, m->rank);
    if (!l) {
        l = add(&key);
        l->group = g;
        l->part = part;
        look_for_left(d, l);
        return;
    }
    const void *data = l->data ? l->data->bytes : l->stays->rank->region + l->stays->parts[l->part].in_offset;
    if (deliver(d, g, part, data, l->bytes, p->peer))
        return;
    if (l->stays)
        l->stays->staying--;
    drop(l);
}

void channel_begin(channel_delivered delivered)
{
    on_delivered = delivered;
    link_on(LINK_P2P, on_p2p);
}

void channel_end(void)
{
    struct letter *l, *next;
    HASH_ITER(hh, letters, l, next)
        drop(l);
    free(has_left);
    has_left = NULL;
}
