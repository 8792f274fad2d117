#include "prismd/channel.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "prismd/link.h"
#include "prismd/place.h"

struct channel_key {
    int32_t global;   /* communicator */
    int32_t from, to; /* ranks in it */
    uint32_t sequence;
};

/* Either the bytes of a send without its receive, or a receive without its send. */
struct letter {
    struct channel_key key;
    uint8_t *data; /* owned; NULL for a receive */
    uint64_t bytes;
    struct group *group;
    uint32_t part;
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

static void drop(struct letter *l)
{
    HASH_DEL(letters, l);
    free(l->data);
    free(l);
}

static int deliver(struct daemon *d, struct group *g, uint32_t part, const void *data, uint64_t bytes, int from)
{
    const struct msg_part *p = &g->parts[part];
    if (bytes != p->out_bytes)
        return daemon_fail(d, PRISM_EXIT_RANK, "rank %u: ncclRecv of %llu bytes from communicator rank %d, which sent %llu",
                           g->rank->number, (unsigned long long)p->out_bytes, from, (unsigned long long)bytes);
    memcpy(g->rank->region + p->out_offset, data, bytes);
    on_delivered(d, g);
    return 0;
}

static void take_send(struct daemon *d, const struct channel_key *key, const void *data, uint64_t bytes)
{
    struct letter *l = find(key);
    if (l) {
        struct group *g = l->group;
        uint32_t part = l->part;
        drop(l);
        deliver(d, g, part, data, bytes, key->from);
        return;
    }
    l = add(key);
    l->bytes = bytes;
    l->data = malloc(bytes ? bytes : 1);
    if (!l->data)
        abort();
    memcpy(l->data, data, bytes);
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
        take_send(d, &key, data, bytes);
}

void channel_send(struct daemon *d, struct group *g, uint32_t part)
{
    const struct msg_part *p = &g->parts[part];
    const struct membership *m = &g->rank->comms[g->comm];
    struct channel_key key = {m->global, m->rank, p->peer, g->sequence[part]};
    uint32_t to = (uint32_t)d->graph->comms[m->global].ranks[p->peer];
    uint32_t node = place_capture_node(d->conf, to);
    const void *data = g->rank->region + p->in_offset;
    if (node == d->conf->node) {
        take_send(d, &key, data, p->in_bytes);
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

static void look_for_left(struct daemon *d, const struct letter *l)
{
    int from = d->graph->comms[l->key.global].ranks[l->key.from];
    if (has_left && l->group && has_left[from])
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
    if (!l) {
        l = add(&key);
        l->group = g;
        l->part = part;
        look_for_left(d, l);
        return;
    }
    if (!deliver(d, g, part, l->data, l->bytes, p->peer))
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
