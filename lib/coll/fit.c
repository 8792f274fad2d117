/* fit.c - the numbers of a network profile from measurements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/model.h"

#define ROUNDS 12 /* of choosing ring or tree for each point and fitting again */

void coll_network_default(struct coll_network *net)
{
    *net = (struct coll_network){.tree_allreduce = true};
    net->link[COLL_LINK_INTRA] = (struct coll_link_profile){10e-6, 3e-6, 300e9, 32768, false};
    net->link[COLL_LINK_INTER] = (struct coll_link_profile){12e-6, 8e-6, 45e9, 32768, false};
}

void coll_network_clear(struct coll_network *net)
{
    coll_curves_free(net);
    free(net->points);
    net->points = NULL;
    net->npoints = 0;
}

/* --- least squares with three unknowns: launch, step, seconds a byte --- */

struct system {
    double a[3][3], b[3];
};

static void add_equation(struct system *s, const double row[3], double right, double weight)
{
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            s->a[i][j] += weight * row[i] * row[j];
        s->b[i] += weight * row[i] * right;
    }
}

/* Solve for the unknowns in mask, the others zero. Columns are brought to one scale first: bytes are many, steps few. */
static bool solve(const struct system *s, unsigned mask, double x[3])
{
    double m[3][4], scale[3];
    int index[3], n = 0;
    for (int i = 0; i < 3; i++) {
        x[i] = 0;
        if (mask & (1u << i)) {
            if (s->a[i][i] <= 0)
                return false;
            scale[n] = 1 / sqrt(s->a[i][i]);
            index[n++] = i;
        }
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            m[i][j] = s->a[index[i]][index[j]] * scale[i] * scale[j];
        m[i][n] = s->b[index[i]] * scale[i];
    }
    for (int i = 0; i < n; i++) { /* positive definite: pivots lie on the diagonal */
        if (m[i][i] < 1e-10)
            return false;
        for (int k = 0; k < n; k++) {
            double factor = k == i ? 0 : m[k][i] / m[i][i];
            for (int j = i; j <= n; j++)
                m[k][j] -= factor * m[i][j];
        }
    }
    for (int i = 0; i < n; i++)
        x[index[i]] = m[i][n] / m[i][i] * scale[i];
    return true;
}

static double squares(const struct system *s, const double x[3])
{
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        sum -= 2 * s->b[i] * x[i];
        for (int j = 0; j < 3; j++)
            sum += s->a[i][j] * x[i] * x[j];
    }
    return sum;
}

/* The best of all choices of unknowns whose solution has none below zero; bytes must cost something. */
static bool solve_nonnegative(const struct system *s, double best[3])
{
    double least = INFINITY, x[3];
    for (unsigned mask = 4; mask < 8; mask++)
        if (solve(s, mask, x) && x[0] >= 0 && x[1] >= 0 && x[2] > 0 && squares(s, x) < least) {
            least = squares(s, x);
            memcpy(best, x, sizeof x);
        }
    return least < INFINITY;
}

/* --- one link class --- */

static enum coll_algorithm faster(const struct coll_network *net, const struct coll_point *p)
{
    if (!coll_has_tree(net, p->op))
        return COLL_RING;
    struct coll_cost ring = coll_cost_of(net, p->op, COLL_RING, p->bytes, p->size, p->nodes, -1);
    struct coll_cost tree = coll_cost_of(net, p->op, COLL_TREE, p->bytes, p->size, p->nodes, -1);
    return coll_cost_seconds(net, p->nodes, &tree) < coll_cost_seconds(net, p->nodes, &ring) ? COLL_TREE
                                                                                             : COLL_RING;
}

static bool fit_once(struct coll_network *net, enum coll_link link, const enum coll_algorithm *algorithms)
{
    struct system s = {0};
    double x[3] = {0};
    for (size_t i = 0; i < net->npoints; i++) {
        const struct coll_point *p = &net->points[i];
        if (coll_link_of(p->nodes) != link)
            continue;
        struct coll_cost c = coll_cost_of(net, p->op, algorithms[i], p->bytes, p->size, p->nodes, -1);
        double row[3] = {1, c.steps, c.wire};
        double right = p->seconds - c.intra_steps * net->link[COLL_LINK_INTRA].step_s;
        add_equation(&s, row, right, 1 / (p->seconds * p->seconds));
    }
    if (!solve_nonnegative(&s, x))
        return false;
    net->link[link].launch_s = x[0];
    net->link[link].step_s = x[1];
    net->link[link].bandwidth_Bps = 1 / x[2];
    net->link[link].measured = true;
    return true;
}

static double error_of(const struct coll_network *net, enum coll_link link)
{
    double square = 0;
    for (size_t i = 0; i < net->npoints; i++) {
        const struct coll_point *p = &net->points[i];
        if (coll_link_of(p->nodes) == link)
            square +=
                pow(coll_model_seconds(net, p->op, p->bytes, p->size, p->nodes, -1) / p->seconds - 1, 2);
    }
    return square;
}

/* Choosing the faster algorithm needs the numbers, and they need the choice: go round. Trees first for messages up to
 * small bytes. */
static bool fit_from(struct coll_network *net, enum coll_link link, double small)
{
    enum coll_algorithm *algorithms = malloc((net->npoints + 1) * sizeof *algorithms);
    if (!algorithms)
        abort();
    for (size_t i = 0; i < net->npoints; i++)
        algorithms[i] =
            coll_has_tree(net, net->points[i].op) && net->points[i].bytes <= small ? COLL_TREE : COLL_RING;
    bool fitted = fit_once(net, link, algorithms), changed = true;
    for (int round = 0; fitted && changed && round < ROUNDS; round++) {
        changed = false;
        for (size_t i = 0; i < net->npoints; i++) {
            enum coll_algorithm now = faster(net, &net->points[i]);
            changed |= now != algorithms[i];
            algorithms[i] = now;
        }
        if (changed)
            fitted = fit_once(net, link, algorithms);
    }
    free(algorithms);
    return fitted;
}

static bool fit_link(struct coll_network *net, enum coll_link link)
{
    static const double starts[] = {0, 4096, 65536, 1048576};
    struct coll_link_profile best = net->link[link];
    double least = INFINITY;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (fit_from(net, link, starts[i]) && error_of(net, link) < least) {
            least = error_of(net, link);
            best = net->link[link];
        }
    net->link[link] = best;
    return least < INFINITY;
}

/* --- all of it --- */

static int check_points(const struct coll_point *points, size_t n, size_t used[COLL_LINKS],
                        struct prism_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct coll_point *p = &points[i];
        if (p->op <= 0 || p->op >= PRISM_OP_END || p->size < 2 || p->nodes < 1 || p->nodes > p->size ||
            !(p->bytes >= 1 && p->bytes < 1e18) || !(p->seconds > 0 && p->seconds < 1e6))
            return prism_error_set(
                err, PRISM_EXIT_USAGE,
                "network profile: measurement %zu makes no sense (%s, %d ranks on %d nodes, %g bytes, "
                "%g s)",
                i, prism_op_name(p->op), p->size, p->nodes, p->bytes, p->seconds);
        used[coll_link_of(p->nodes)]++;
    }
    return 0;
}

/* Try one set of what may run as a tree and how steps between nodes count. Less than 1 % better is not better. */
static bool fit_variant(struct coll_network *net, unsigned variant, const size_t used[COLL_LINKS],
                        double *least)
{
    struct coll_network trial = *net;
    double square = 0;
    trial.tree_allreduce = !(variant & 1);
    trial.tree_rooted = variant & 2;
    trial.lockstep = variant & 4;
    for (int l = 0; l < COLL_LINKS; l++) {
        if (used[l] && !fit_link(&trial, l))
            return false;
        square += used[l] ? error_of(&trial, l) : 0;
    }
    if (square >= *least * 0.99)
        return false;
    *least = square;
    *net = trial;
    return true;
}

int coll_network_fit(struct coll_network *net, const struct coll_point *points, size_t n,
                     struct prism_error *err)
{
    size_t used[COLL_LINKS] = {0, 0};
    double least = INFINITY;
    bool fitted = false;
    coll_network_default(net);
    if (check_points(points, n, used, err))
        return -1;
    net->points = malloc((n + 1) * sizeof *points);
    if (!net->points)
        abort();
    if (n)
        memcpy(net->points, points, n * sizeof *points);
    net->npoints = n;
    for (unsigned variant = 0; n && variant < 8; variant++)
        fitted |= fit_variant(net, variant, used, &least);
    if (!fitted) {
        coll_network_clear(net);
        return prism_error_set(
            err, PRISM_EXIT_USAGE,
            "network profile: %zu measurements are too few or do not grow with bytes; measure several "
            "sizes of at least one operation",
            n);
    }
    net->fit_error = sqrt(least / (double)n);
    coll_curves_build(net);
    return 0;
}
