/* fold_compare.c - are the graphs of two traces the same, rank by rank? `fold_compare A/graph.bin B/graph.bin`; with --counts in front:
 * only by how many per cent the amounts of their sends differ.
 *
 * Nodes, parts and iterations must be equal, and communicators by their members (their global numbers depend on who came
 * first). Then both get the same works, made from a rank's nodes, and every end of every node must be equal to the nanosecond.
 * Works and classes in the files are not compared: capture measures none, and classes only say whose works count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "graph/eval.h"
#include "graph/feeds.h"
#include "graph/graph.h"

static struct graph *read_graph(const char *path)
{
    struct bytes b = {0};
    struct prism_error err = {0};
    struct graph *g = file_read(path, 1ull << 32, &b, &err) ? NULL : graph_read(b.data, b.len, &err);
    if (!g) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        exit(2);
    }
    bytes_free(&b);
    return g;
}

static void differ(uint32_t rank, const char *what, uint64_t a, uint64_t b)
{
    printf("rank %u: %s: %llu and %llu\n", rank, what, (unsigned long long)a, (unsigned long long)b);
    exit(1);
}

static void same_comms(const struct graph *a, const struct graph *b, uint32_t rank)
{
    const struct graph_rank *x = &a->ranks[rank], *y = &b->ranks[rank];
    if (x->ncomms != y->ncomms)
        differ(rank, "communicators", x->ncomms, y->ncomms);
    for (uint32_t k = 0; k < x->ncomms; k++) {
        if ((x->comms[k].global < 0) != (y->comms[k].global < 0) || x->comms[k].rank != y->comms[k].rank)
            differ(rank, "place in communicator", (uint64_t)x->comms[k].rank, (uint64_t)y->comms[k].rank);
        if (x->comms[k].global < 0)
            continue;
        const struct graph_comm *c = &a->comms[x->comms[k].global], *d = &b->comms[y->comms[k].global];
        if (c->size != d->size || memcmp(c->ranks, d->ranks, c->size * sizeof *c->ranks))
            differ(rank, "members of communicator", k, k);
    }
}

static void same_rank(const struct graph *a, const struct graph *b, uint32_t rank)
{
    const struct graph_rank *x = &a->ranks[rank], *y = &b->ranks[rank];
    same_comms(a, b, rank);
    if (x->nnodes != y->nnodes || x->nparts != y->nparts)
        differ(rank, "nodes", x->nnodes, y->nnodes);
    for (uint32_t i = 0; i < x->nnodes; i++)
        if (memcmp(&x->nodes[i], &y->nodes[i], sizeof *x->nodes))
            differ(rank, "node", i, i);
    for (uint32_t i = 0; i < x->nparts; i++)
        if (memcmp(&x->parts[i], &y->parts[i], sizeof *x->parts))
            differ(rank, "part", i, i);
    if (x->niterations != y->niterations || memcmp(x->iterations, y->iterations, (x->niterations + 1u) * sizeof *x->iterations))
        differ(rank, "iterations", x->niterations, y->niterations);
}

/* ---- Equal works, equal times ---- */

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u + b;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 31);
}

static double duration_ns(void *ctx, const struct graph *g, uint32_t comm, int32_t p, const struct graph_part *parts, uint32_t nparts)
{
    (void)ctx;
    (void)p;
    const struct graph_comm *c = &g->comms[comm];
    uint64_t hash = mixed(c->size, (uint64_t)c->ranks[0]);
    for (uint32_t i = 0; i < nparts; i++)
        hash = mixed(hash, parts[i].count + parts[i].op);
    return 1000 + (double)(hash % 50000);
}

static bool is_eager(void *ctx, uint64_t bytes)
{
    (void)ctx;
    return bytes <= 4096;
}

static struct graph_eval *evaluate(struct graph *g)
{
    struct prism_error err = {0};
    struct graph_eval_ops ops = {.duration_ns = duration_ns, .send_is_eager = is_eager};
    struct graph_eval_options options = {.keep_times = true};
    for (uint32_t r = 0; r < g->world; r++) {
        graph_alloc_works(g, r);
        for (uint32_t i = 0; i < g->ranks[r].nnodes; i++) {
            g->ranks[r].device_work[i] = (float)(mixed(r, i) % 20000);
            g->ranks[r].host_work[i] = (float)(mixed(i, r) % 5000);
        }
    }
    struct graph_eval *e = graph_eval(g, &ops, &options, &err);
    char why[256] = "";
    if (!e || graph_eval_blocked(e, why, sizeof why)) {
        printf("not evaluated: %s %s\n", err.text, why);
        exit(1);
    }
    return e;
}

static void same_times(struct graph *a, struct graph *b)
{
    struct graph_eval *x = evaluate(a), *y = evaluate(b);
    for (uint32_t r = 0; r < a->world; r++)
        for (uint32_t i = 0; i < a->ranks[r].nnodes; i++)
            if (graph_eval_times(x, r)[i].end_ns != graph_eval_times(y, r)[i].end_ns)
                differ(r, "end of node", i, i);
    graph_eval_destroy(x);
    graph_eval_destroy(y);
}

/* How far the amounts of sends are apart, in per cent of their mean: routed tokens, where that is what is sent. */
static void print_counts(const struct graph *a, const struct graph *b)
{
    double apart = 0, mean = 0;
    for (uint32_t r = 0; r < a->world; r++) {
        const struct graph_rank *x = &a->ranks[r], *y = &b->ranks[r];
        if (x->nparts != y->nparts)
            differ(r, "parts", x->nparts, y->nparts);
        for (uint32_t i = 0; i < x->nparts; i++) {
            double p = (double)x->parts[i].count, q = (double)y->parts[i].count;
            if (graph_feeds(x->parts[i].op) != GRAPH_FEEDS_SEND)
                continue;
            apart += p > q ? p - q : q - p;
            mean += (p + q) / 2;
        }
    }
    printf("%.3f\n", mean > 0 ? 100 * apart / mean : 0);
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--counts")) {
        struct graph *x = read_graph(argv[2]), *y = read_graph(argv[3]);
        print_counts(x, y);
        graph_destroy(x);
        graph_destroy(y);
        return 0;
    }
    if (argc != 3)
        return 2;
    struct graph *a = read_graph(argv[1]), *b = read_graph(argv[2]);
    uint64_t nodes = 0;
    if (a->world != b->world || a->ncomms != b->ncomms)
        differ(0, "world or communicators", a->ncomms, b->ncomms);
    for (uint32_t r = 0; r < a->world; r++) {
        same_rank(a, b, r);
        nodes += a->ranks[r].nnodes;
    }
    same_times(a, b);
    printf("same: %u ranks, %u communicators, %llu nodes\n", a->world, a->ncomms, (unsigned long long)nodes);
    graph_destroy(a);
    graph_destroy(b);
    return 0;
}
