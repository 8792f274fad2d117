#include "coll/model.h"

#include <math.h>

enum coll_link coll_link_of(int nodes)
{
    return nodes > 1 ? COLL_LINK_INTER : COLL_LINK_INTRA;
}

bool coll_has_tree(const struct coll_network *net, int op)
{
    if (op == PRISM_OP_ALLREDUCE)
        return net->tree_allreduce;
    return net->tree_rooted && (op == PRISM_OP_BROADCAST || op == PRISM_OP_REDUCE);
}

static double levels(int n)
{
    return ceil(log2((double)n) - 1e-9);
}

/* Of all steps, those within nodes, where they are told apart. crossing: how many go between nodes. */
static struct coll_cost cost(const struct coll_network *net, double steps, double crossing, double wire,
                             int nodes)
{
    struct coll_cost c = {steps, 0, wire};
    if (nodes > 1 && !net->lockstep && crossing < steps) {
        c.steps = crossing;
        c.intra_steps = steps - crossing;
    }
    return c;
}

static double broadcast_steps(bool tree, int size, int place)
{
    if (place == 0)
        return 1;
    if (place < 0)
        return tree ? floor(log2((double)size)) : size - 1;
    return tree ? floor(log2(place + 1.0)) : place;
}

struct coll_cost coll_cost_of(const struct coll_network *net, int op, enum coll_algorithm algorithm,
                              double bytes, int size, int nodes, int place)
{
    bool tree = algorithm == COLL_TREE;
    double n = size, share = nodes / n, steps;
    double tree_share = nodes > 1 ? levels(nodes) / levels(size) : 0;
    switch (op) {
    case PRISM_OP_ALLREDUCE:
        steps = tree ? 2 * levels(size) : 2 * (n - 1);
        return cost(net, steps, steps * (tree ? tree_share : share),
                    tree ? 2 * bytes : 2 * (n - 1) / n * bytes, nodes);
    case PRISM_OP_ALLGATHER:
    case PRISM_OP_REDUCESCATTER:
        return cost(net, n - 1, (n - 1) * share, (n - 1) * bytes, nodes);
    case PRISM_OP_BROADCAST:
        steps = broadcast_steps(tree, size, place);
        return cost(net, steps, steps * (tree ? tree_share : share), (tree ? 2 : 1) * bytes, nodes);
    case PRISM_OP_REDUCE:
        steps = place > 0 ? 1 : tree ? levels(size) : n - 1;
        return cost(net, steps, steps * (tree ? tree_share : share), (tree ? 2 : 1) * bytes, nodes);
    case PRISM_OP_ALLTOALL: /* peers of other nodes; coll_duration looks at those of the same node too */
        return cost(net, 1, 1, (nodes > 1 ? n - n / nodes : n - 1) * bytes, nodes);
    case PRISM_OP_GATHER:
    case PRISM_OP_SCATTER:
        return cost(net, 1, 1, (n - 1) * bytes, nodes);
    default:
        return cost(net, 1, 1, bytes, nodes);
    }
}

double coll_cost_seconds(const struct coll_network *net, int nodes, const struct coll_cost *c)
{
    const struct coll_link_profile *link = &net->link[coll_link_of(nodes)];
    return link->launch_s + c->steps * link->step_s + c->intra_steps * net->link[COLL_LINK_INTRA].step_s +
           c->wire / link->bandwidth_Bps;
}

double coll_model_seconds(const struct coll_network *net, int op, double bytes, int size, int nodes,
                          int place)
{
    struct coll_cost ring = coll_cost_of(net, op, COLL_RING, bytes, size, nodes, place);
    double seconds = coll_cost_seconds(net, nodes, &ring);
    if (coll_has_tree(net, op)) {
        struct coll_cost tree = coll_cost_of(net, op, COLL_TREE, bytes, size, nodes, place);
        seconds = fmin(seconds, coll_cost_seconds(net, nodes, &tree));
    }
    return seconds;
}
