/* curves.c - where the model misses a measured group: ratios measured/model over log(bytes). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/model.h"

#define MISSES 0.02 /* root mean square of the relative errors from which the measurement rules */

struct coll_curve {
    int op, size, nodes;
    size_t n;
    double *log_bytes, *ratio; /* n each, by ascending bytes; one allocation, owned by log_bytes */
};

static int compare(const void *a_, const void *b_)
{
    const struct coll_point *a = a_, *b = b_;
    if (a->op != b->op)
        return a->op - b->op;
    if (a->size != b->size)
        return a->size - b->size;
    if (a->nodes != b->nodes)
        return a->nodes - b->nodes;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static bool same_group(const struct coll_point *a, const struct coll_point *b)
{
    return a->op == b->op && a->size == b->size && a->nodes == b->nodes;
}

static double model_of(const struct coll_network *net, const struct coll_point *p)
{
    return coll_model_seconds(net, p->op, p->bytes, p->size, p->nodes, -1);
}

static void add_curve(struct coll_network *net, const struct coll_point *points, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += pow(model_of(net, &points[i]) / points[i].seconds - 1, 2);
    if (sqrt(square / (double)n) <= MISSES)
        return;
    net->curves = realloc(net->curves, (net->ncurves + 1) * sizeof *net->curves);
    double *numbers = malloc(2 * n * sizeof *numbers);
    if (!net->curves || !numbers)
        abort();
    struct coll_curve *c = &net->curves[net->ncurves++];
    *c = (struct coll_curve){points->op, points->size, points->nodes, n, numbers, numbers + n};
    for (size_t i = 0; i < n; i++) {
        c->log_bytes[i] = log(points[i].bytes);
        c->ratio[i] = points[i].seconds / model_of(net, &points[i]);
    }
}

void coll_curves_build(struct coll_network *net)
{
    size_t n = net->npoints;
    coll_curves_free(net);
    if (!n)
        return;
    struct coll_point *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        abort();
    memcpy(sorted, net->points, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && same_group(&sorted[first], &sorted[end]);)
            end++;
        add_curve(net, sorted + first, end - first);
    }
    free(sorted);
}

void coll_curves_free(struct coll_network *net)
{
    for (size_t i = 0; i < net->ncurves; i++)
        free(net->curves[i].log_bytes);
    free(net->curves);
    net->curves = NULL;
    net->ncurves = 0;
}

static double interpolate(const struct coll_curve *c, double x)
{
    size_t i = 0;
    if (x <= c->log_bytes[0])
        return c->ratio[0];
    while (i + 1 < c->n && c->log_bytes[i + 1] < x)
        i++;
    if (i + 1 == c->n)
        return c->ratio[i];
    double width = c->log_bytes[i + 1] - c->log_bytes[i];
    double t = width > 0 ? (x - c->log_bytes[i]) / width : 0;
    return c->ratio[i] + t * (c->ratio[i + 1] - c->ratio[i]);
}

double coll_curves_ratio(const struct coll_network *net, int op, double bytes, int size, int nodes)
{
    if (op == PRISM_OP_RECV)
        op = PRISM_OP_SEND;
    for (size_t i = 0; i < net->ncurves; i++) {
        const struct coll_curve *c = &net->curves[i];
        if (c->op == op && c->size == size && c->nodes == nodes)
            return interpolate(c, log(fmax(bytes, 1)));
    }
    return 1;
}
