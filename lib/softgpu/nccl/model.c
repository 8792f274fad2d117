#include "softgpu/nccl/model.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "softgpu/core/engine.h"

static struct sgn_model model;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static double positive(const char *name, double fallback)
{
    double value = sg_profile_number(name, fallback);
    return value > 0 ? value : fallback;
}

/* docs/softgpu-nccl.md lists these. */
static void load(void)
{
    double scale = sg_profile_number("time_scale", 1);
    if (!(scale > 0))
        scale = 1;
    model.launch = sg_profile_number("net_launch_us", 50) * 1e-6 * scale;
    model.latency[SGN_SELF] = 0;
    model.latency[SGN_INTRA] = sg_profile_number("net_intra_latency_us", 50) * 1e-6 * scale;
    model.latency[SGN_INTER] = sg_profile_number("net_inter_latency_us", 200) * 1e-6 * scale;
    model.bandwidth[SGN_SELF] = positive("net_self_bandwidth", 200e6) / scale;
    model.bandwidth[SGN_INTRA] = positive("net_intra_bandwidth", 50e6) / scale;
    model.bandwidth[SGN_INTER] = positive("net_inter_bandwidth", 25e6) / scale;
    model.eager_bytes = (uint64_t)sg_profile_number("net_eager_bytes", 32768);
    model.jitter = sg_profile_number("net_jitter", 1);
    model.nic_shared = sg_profile_number("net_nic_shared", 0) != 0;
    model.ordered = sg_profile_number("net_comm_order", 1) != 0;
}

const struct sgn_model *sgn_model(void)
{
    pthread_once(&once, load);
    return &model;
}

enum sgn_class sgn_link_class(struct sgn_place a, struct sgn_place b)
{
    return a.node != b.node ? SGN_INTER : a.index != b.index ? SGN_INTRA : SGN_SELF;
}

static int compare_places(const void *x, const void *y, void *context)
{
    const struct sgn_place *places = context;
    int a = *(const int *)x, b = *(const int *)y;
    if (places[a].node != places[b].node)
        return places[a].node < places[b].node ? -1 : 1;
    if (places[a].index != places[b].index)
        return places[a].index < places[b].index ? -1 : 1;
    return a < b ? -1 : 1;
}

int sgn_ring_init(struct sgn_ring *ring, int ranks, const struct sgn_place *places)
{
    *ring = (struct sgn_ring){.ranks = ranks, .places = places};
    ring->order = calloc((size_t)ranks, sizeof(int));
    ring->position = calloc((size_t)ranks, sizeof(int));
    if (!ring->order || !ring->position) {
        sgn_ring_free(ring);
        return -1;
    }
    for (int i = 0; i < ranks; i++)
        ring->order[i] = i;
    qsort_r(ring->order, (size_t)ranks, sizeof(int), compare_places, (void *)(uintptr_t)places);
    for (int i = 0; i < ranks; i++) {
        ring->position[ring->order[i]] = i;
        enum sgn_class link = sgn_link_class(places[ring->order[i]], places[ring->order[(i + 1) % ranks]]);
        if (link > ring->slowest)
            ring->slowest = link;
    }
    return 0;
}

void sgn_ring_free(struct sgn_ring *ring)
{
    free(ring->order);
    free(ring->position);
    ring->order = ring->position = NULL;
}

static int log2_ceil(int n)
{
    int steps = 0;
    while ((1 << steps) < n)
        steps++;
    return steps;
}

/* A link carries its bytes and, in parallel, nothing else: seconds of steps and bytes on the slowest class.
 */
static double over(const struct sgn_ring *ring, double steps, double bytes, const double *share)
{
    enum sgn_class link = ring->slowest;
    return steps * model.latency[link] + bytes * share[link] / model.bandwidth[link];
}

static bool tree_is_faster(const struct sgn_ring *ring, const struct sgn_task *task, double bytes,
                           const double *share)
{
    int n = ring->ranks, depth = log2_ceil(n);
    if (task->kind == SGN_ALL_REDUCE)
        return over(ring, 2 * depth, 2 * bytes, share) <
               over(ring, 2 * (n - 1), 2 * bytes * (n - 1) / n, share);
    return over(ring, depth, 2 * bytes, share) < over(ring, n - 1, bytes, share);
}

/* Bytes that rank exchanges with peers of a class in an all-to-all of `each` bytes a pair; with a shared
 * network link it carries those of all the node's ranks. */
static double exchanged(const struct sgn_ring *ring, int rank, enum sgn_class link, double each)
{
    double peers = 0, sharers = 1;
    for (int r = 0; r < ring->ranks; r++) {
        enum sgn_class to = sgn_link_class(ring->places[rank], ring->places[r]);
        peers += r != rank && to == link;
        sharers += r != rank && to != SGN_INTER;
    }
    return peers * each * (link == SGN_INTER && model.nic_shared ? sharers : 1);
}

static double spread(const struct sgn_ring *ring, int rank, double each, const double *share)
{
    double worst = 0;
    for (enum sgn_class link = SGN_INTRA; link <= SGN_INTER; link++) {
        double bytes = exchanged(ring, rank, link, each);
        if (bytes > 0)
            worst = fmax(worst, model.latency[link] + bytes * share[link] / model.bandwidth[link]);
    }
    return worst;
}

/* Edges from the root to position in a binary tree with the root at position 0 (heap order). */
static int tree_depth(int position)
{
    int depth = 0;
    for (; position > 0; position = (position - 1) / 2)
        depth++;
    return depth;
}

static double broadcast_seconds(const struct sgn_ring *ring, const struct sgn_task *task, int rank,
                                double bytes, const double *share)
{
    int n = ring->ranks, away = (ring->position[rank] - ring->position[task->peer] + n) % n;
    bool tree = tree_is_faster(ring, task, bytes, share);
    int depth = away == 0 ? 1 : tree ? tree_depth(away) : away; /* the root ends when its bytes have left */
    return over(ring, depth, tree ? 2 * bytes : bytes, share);
}

double sgn_model_seconds(const struct sgn_ring *ring, const struct sgn_task *task, int rank,
                         const double share[SGN_CLASSES])
{
    int n = ring->ranks;
    double bytes = (double)(task->in_bytes > task->out_bytes ? task->in_bytes : task->out_bytes), seconds = 0;
    sgn_model();
    if (n == 1)
        return model.launch + bytes / model.bandwidth[SGN_SELF];
    bool tree = tree_is_faster(ring, task, bytes, share);
    switch (task->kind) {
    case SGN_ALL_REDUCE:
        seconds = tree ? over(ring, 2 * log2_ceil(n), 2 * bytes, share)
                       : over(ring, 2 * (n - 1), 2 * bytes * (n - 1) / n, share);
        break;
    case SGN_ALL_GATHER:
    case SGN_REDUCE_SCATTER:
        seconds = over(ring, n - 1, bytes * (n - 1) / n, share);
        break;
    case SGN_REDUCE:
        seconds = tree ? over(ring, log2_ceil(n), 2 * bytes, share) : over(ring, n - 1, bytes, share);
        break;
    case SGN_BROADCAST:
        seconds = broadcast_seconds(ring, task, rank, bytes, share);
        break;
    case SGN_ALL_TO_ALL:
        for (int r = 0; r < n; r++)
            seconds = fmax(seconds, spread(ring, r, bytes / n, share));
        break;
    default: /* gather, scatter: the root's link carries everything; bytes is one rank's part except at the
                root */
        seconds = spread(ring, task->peer, rank == task->peer ? bytes / n : bytes, share);
        break;
    }
    return model.launch + seconds;
}

double sgn_model_busy(const struct sgn_ring *ring, const struct sgn_task *task,
                      const double share[SGN_CLASSES])
{
    int from = task->peer >= 0 ? task->peer : 0, n = ring->ranks;
    double steps = 0, latency = model.latency[ring->slowest];
    if (n == 1)
        return sgn_model_seconds(ring, task, 0, share) - model.launch;
    double bytes = (double)(task->in_bytes > task->out_bytes ? task->in_bytes : task->out_bytes);
    bool tree = tree_is_faster(ring, task, bytes, share);
    switch (task->kind) {
    case SGN_ALL_REDUCE:
        steps = tree ? 2 * log2_ceil(n) : 2 * (n - 1);
        break;
    case SGN_ALL_GATHER:
    case SGN_REDUCE_SCATTER:
        steps = n - 1;
        break;
    case SGN_REDUCE:
        steps = tree ? log2_ceil(n) : n - 1;
        break;
    default:
        steps = 1;
        break;
    }
    return fmax(0, sgn_model_seconds(ring, task, from, share) - model.launch - steps * latency);
}

double sgn_model_flow(enum sgn_class link, uint64_t bytes, double share)
{
    sgn_model();
    return model.launch + model.latency[link] + (double)bytes * share / model.bandwidth[link];
}

uint64_t sgn_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a ^ (b * 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}

int64_t sgn_model_ns(double seconds, uint64_t seed, uint64_t number)
{
    double factor = sgn_model()->jitter > 0 ? 1 + (sg_jitter(seed, number) - 1) * model.jitter : 1;
    return llround(seconds * fmax(factor, 0.1) * 1e9);
}
