/* duration.c - answering how long; model.c has the formulas, fit.c the numbers. */
#include "coll/duration.h"

#include <math.h>

#include "coll/model.h"

static int node_of(const struct coll_shape *shape, int rank)
{
    if (shape->node_of)
        return shape->node_of[rank];
    return (int)((int64_t)rank * shape->nodes / shape->size);
}

static enum coll_link link_between(const struct coll_shape *shape, int p, int q)
{
    bool inside = p >= 0 && p < shape->size && q >= 0 && q < shape->size;
    return !inside || node_of(shape, p) == node_of(shape, q) ? COLL_LINK_INTRA : COLL_LINK_INTER;
}

static double message_seconds(const struct coll_network *net, enum coll_link link, double bytes)
{
    int nodes = link == COLL_LINK_INTER ? 2 : 1;
    return coll_model_seconds(net, PRISM_OP_SEND, bytes, 2, nodes, -1) *
           coll_curves_ratio(net, PRISM_OP_SEND, bytes, 2, nodes);
}

/* An all-to-all over nodes also moves bytes within them, side by side with the others. */
static double within_nodes(const struct coll_network *net, double bytes, const struct coll_shape *shape)
{
    double peers = (double)shape->size / shape->nodes - 1;
    const struct coll_link_profile *intra = &net->link[COLL_LINK_INTRA];
    return peers > 0 ? intra->launch_s + intra->step_s + peers * bytes / intra->bandwidth_Bps : 0;
}

double coll_duration(const struct coll_network *net, int op, uint64_t bytes, const struct coll_shape *shape,
                     int root, int p)
{
    double b = (double)bytes;
    int n = shape->size;
    if (n < 2 || op <= 0 || op >= PRISM_OP_END)
        return 0;
    if (coll_op_is_p2p(op))
        return root == p ? 0 : message_seconds(net, link_between(shape, p, root), b);
    int place = coll_op_is_rooted(op) ? ((p - root) % n + n) % n : -1;
    if (op == PRISM_OP_GATHER && place > 0 && coll_is_eager(net, shape, p, root, bytes))
        return message_seconds(net, link_between(shape, p, root), b);
    double seconds = coll_model_seconds(net, op, b, n, shape->nodes, place) *
                     coll_curves_ratio(net, op, b, n, shape->nodes);
    if (op == PRISM_OP_ALLTOALL && shape->nodes > 1)
        seconds = fmax(seconds, within_nodes(net, b, shape));
    return seconds;
}

/* All sends and receives of a group: bytes by class and direction. */
static double messages_seconds(const struct coll_network *net, const struct coll_shape *shape, int p,
                               const struct coll_part *parts, size_t n)
{
    double bytes[COLL_LINKS][2] = {{0}}, longest = 0;
    bool used[COLL_LINKS] = {false};
    for (size_t i = 0; i < n; i++) {
        if (!coll_op_is_p2p(parts[i].op) || parts[i].peer == p)
            continue;
        enum coll_link link = link_between(shape, p, parts[i].peer);
        used[link] = true;
        bytes[link][parts[i].op == PRISM_OP_RECV] += (double)parts[i].bytes;
    }
    for (int l = 0; l < COLL_LINKS; l++)
        if (used[l])
            longest = fmax(longest, message_seconds(net, l, fmax(bytes[l][0], bytes[l][1])));
    return longest;
}

double coll_group_duration(const struct coll_network *net, const struct coll_shape *shape, int p,
                           const struct coll_part *parts, size_t n)
{
    double seconds = messages_seconds(net, shape, p, parts, n);
    double launch = net->link[coll_link_of(shape->nodes)].launch_s;
    for (size_t i = 0; i < n; i++) {
        if (coll_op_is_p2p(parts[i].op))
            continue;
        double one = coll_duration(net, parts[i].op, parts[i].bytes, shape, parts[i].peer, p);
        seconds += seconds > 0 ? fmax(one - launch, 0) : one;
    }
    return seconds;
}

bool coll_is_eager(const struct coll_network *net, const struct coll_shape *shape, int p, int q,
                   uint64_t bytes)
{
    return bytes <= net->link[link_between(shape, p, q)].eager_bytes;
}

bool coll_feeds(int op, int root, int p, int q, bool eager)
{
    if (p == q)
        return true;
    switch (op) {
    case PRISM_OP_ALLREDUCE:
    case PRISM_OP_ALLGATHER:
    case PRISM_OP_REDUCESCATTER:
    case PRISM_OP_ALLTOALL:
        return true;
    case PRISM_OP_BROADCAST:
    case PRISM_OP_SCATTER:
        return q == root;
    case PRISM_OP_REDUCE:
    case PRISM_OP_GATHER:
        return p == root;
    case PRISM_OP_SEND: /* root is the other side */
        return q == root && !eager;
    case PRISM_OP_RECV:
        return q == root;
    default:
        return false;
    }
}
