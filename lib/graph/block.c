/* block.c - runs of nodes without what differs from rank to rank: communicators by the rank's own numbers, peers of sends
 * and receives by distance around the communicator, counts elsewhere. */
#include <string.h>

#include "graph/block_peer.h"
#include "graph/format.h"

#define BLOCK_MIN 8u    /* nodes; shorter ones cost more than they share */
#define BLOCK_MAX 4096u /* nodes; a program without passes is cut all the same */

/* The passes of a pipeline end with a send, alone or grouped with the next receive. */
uint32_t block_end(const struct graph_rank *r, uint32_t from, bool at_sends)
{
    uint32_t most = r->nnodes - from > BLOCK_MAX ? from + BLOCK_MAX : r->nnodes;
    for (uint32_t i = 0; r->niterations && i <= r->niterations; i++)
        if (r->iterations[i] > from && r->iterations[i] < most)
            most = r->iterations[i];
    for (uint32_t i = from; at_sends && i < most; i++) {
        const struct graph_node *n = &r->nodes[i];
        if (n->kind == GRAPH_COMM && i - from + 1 >= BLOCK_MIN)
            for (uint32_t p = 0; p < n->nparts; p++)
                if (graph_feeds(r->parts[n->first_part + p].op) == GRAPH_FEEDS_SEND)
                    return i + 1;
    }
    return most;
}

#define COLUMN(bits, value)                                                                                  \
    for (uint32_t i = from; i < to; i++)                                                                     \
    bytes_put_u##bits(out, r->nodes[i].value)

#define PARTS(put, value)                                                                                    \
    for (uint32_t i = from; i < to; i++)                                                                     \
        for (uint32_t p = 0; p < r->nodes[i].nparts; p++)                                                    \
    put(out, r->parts[r->nodes[i].first_part + p].value)

/* Sends to members 0, 1, 2 ... size - 1 and receives from them likewise, and nothing else. */
static bool block_is_exchange(const struct graph_rank *r, const struct graph_node *n, uint32_t size)
{
    uint32_t sends = 0, receives = 0;
    if (n->nparts != 2 * (uint64_t)size)
        return false;
    for (uint32_t p = 0; p < n->nparts; p++) {
        const struct graph_part *part = &r->parts[n->first_part + p];
        enum graph_feeds feeds = graph_feeds(part->op);
        if (feeds < GRAPH_FEEDS_SEND || part->peer != (int32_t)(feeds == GRAPH_FEEDS_SEND ? sends++ : receives++))
            return false;
    }
    return sends == size && receives == size;
}

static void put_peers(struct bytes *out, const struct graph *g, const struct graph_rank *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct graph_node *n = &r->nodes[i];
        struct graph_member m = n->comm < r->ncomms ? r->comms[n->comm] : (struct graph_member){-1, -1};
        uint32_t size = m.global >= 0 ? g->comms[m.global].size : 0;
        bool numbered = size && block_is_exchange(r, n, size);
        for (uint32_t p = 0; p < n->nparts; p++) {
            const struct graph_part *part = &r->parts[n->first_part + p];
            bytes_put_u32(out, numbered ? (uint32_t)part->peer | BLOCK_NUMBERED : (uint32_t)block_relative(part->op, part->peer, m.rank, size));
        }
    }
}

void block_put(struct bytes *out, const struct graph *g, const struct graph_rank *r, uint32_t from, uint32_t to,
               uint32_t *next)
{
    uint32_t nparts = 0;
    for (uint32_t i = from; i < to; i++)
        nparts += r->nodes[i].nparts;
    bytes_put_u32(out, to - from);
    bytes_put_u32(out, nparts);
    COLUMN(8, kind);
    COLUMN(16, host);
    COLUMN(32, stream);
    COLUMN(32, dep);
    COLUMN(32, comm);
    for (uint32_t i = from; i < to; i++) {
        const struct graph_node *n = &r->nodes[i];
        bool counted = n->kind == GRAPH_COMM && n->comm < r->ncomms;
        bytes_put_u32(out, n->ordinal - (counted ? next[n->comm]++ : 0));
    }
    COLUMN(32, nparts);
    PARTS(bytes_put_u8, op);
    PARTS(bytes_put_u8, datatype);
    PARTS(bytes_put_u8, redop);
    put_peers(out, g, r, from, to);
}

bool block_sizes(const struct bytes *raw, uint32_t *nnodes, uint32_t *nparts)
{
    struct bytes_reader b = bytes_reader_init(raw->data, raw->len);
    *nnodes = bytes_get_u32(&b);
    *nparts = bytes_get_u32(&b);
    return !b.bad && raw->len == 8 + GRAPH_NODE_BYTES * (uint64_t)*nnodes + (GRAPH_PART_BYTES - 8) * (uint64_t)*nparts;
}

#define GET(bits, list, n, value)                                                                            \
    for (uint32_t i = 0; i < (n); i++)                                                                       \
    (list)[i].value = bytes_get_u##bits(&b)

void block_get(const struct bytes *raw, struct graph_node *nodes, struct graph_part *parts, uint32_t parts_before)
{
    struct bytes_reader b = bytes_reader_init(raw->data, raw->len);
    uint32_t n = bytes_get_u32(&b), np = bytes_get_u32(&b);
    GET(8, nodes, n, kind);
    GET(16, nodes, n, host);
    GET(32, nodes, n, stream);
    GET(32, nodes, n, dep);
    GET(32, nodes, n, comm);
    GET(32, nodes, n, ordinal);
    GET(32, nodes, n, nparts);
    for (uint32_t i = 0; i < n; i++) {
        nodes[i].first_part = parts_before;
        parts_before += nodes[i].nparts; /* may wrap in a damaged file; graph_validate finds parts outside */
    }
    GET(8, parts, np, op);
    GET(8, parts, np, datatype);
    GET(8, parts, np, redop);
    for (uint32_t i = 0; i < np; i++)
        parts[i].peer = (int32_t)bytes_get_u32(&b);
}
