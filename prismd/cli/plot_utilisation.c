/* plot_utilisation.c - how many ranks compute, communicate or idle as time goes on, and the shares of each stage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plot.h"

#define BIN_PIXELS   3.0
#define PANEL_HEIGHT 320.0
#define GROUPS_MAX   40 /* bars of the lower panel */

/* Bottom to top. */
static const enum state order[] = { STATE_COMPUTE, STATE_HIDDEN_COLLECTIVE, STATE_HIDDEN_P2P, STATE_EXPOSED_COLLECTIVE,
                                    STATE_EXPOSED_P2P, STATE_IDLE };

struct group {
    char name[64];
    double share[STATES], weight; /* sums over its ranks */
};

struct utilisation {
    const struct plot *p;
    struct plot_area area;
    size_t nbins;
    double (*bins)[STATES]; /* shares of all ranks */
    double weight;
    struct group *groups;
    uint32_t ngroups;
};

static void add_bins(struct utilisation *u, const struct state_span *s, double weight)
{
    double bin_ns = (double)(u->p->end - u->p->begin) / (double)u->nbins;
    double from = (double)(s->start - u->p->begin) / bin_ns, to = (double)(s->end - u->p->begin) / bin_ns;
    for (size_t at = (size_t)from; at < u->nbins && (double)at < to; at++)
        u->bins[at][s->state] += weight * (fmin(to, (double)at + 1) - fmax(from, (double)at));
}

/* They have one colour. */
static enum state merged(enum state s)
{
    return s == STATE_HIDDEN_P2P ? STATE_HIDDEN_COLLECTIVE : s;
}

static struct group *group_of(struct utilisation *u, uint32_t slot)
{
    const struct plot *p = u->p;
    uint32_t rank = p->t->ranks[slot], at = p->nstages > 1 ? p->stage[rank] : slot;
    if (at >= u->ngroups)
        return NULL;
    struct group *g = &u->groups[at];
    snprintf(g->name, sizeof(g->name), p->nstages > 1 ? "stage %u" : "rank %u", p->nstages > 1 ? at : rank);
    return g;
}

static void collect(struct utilisation *u)
{
    const struct plot *p = u->p;
    for (uint32_t i = 0; i < p->t->nranks; i++) {
        struct spans spans = { 0 };
        struct state_span *states;
        struct group *group = group_of(u, i);
        spans_of_rank(p->t, i, p->begin, p->end, &spans);
        size_t n = states_of_rank(&spans, p->begin, p->end, &states);
        for (size_t k = 0; k < n; k++) {
            add_bins(u, &states[k], p->weight[i]);
            if (group)
                group->share[merged(states[k].state)] += (double)(states[k].end - states[k].start) / (double)(p->end - p->begin) * p->weight[i];
        }
        u->weight += p->weight[i];
        if (group)
            group->weight += p->weight[i];
        free(states);
        spans_clear(&spans);
    }
}

static double share_idle(const struct utilisation *u)
{
    double idle = 0;
    for (size_t i = 0; i < u->nbins; i++)
        idle += u->bins[i][STATE_IDLE];
    return idle / ((double)u->nbins * u->weight);
}

static void draw_time(const struct utilisation *u, struct canvas *c, double top)
{
    double width = u->area.width / (double)u->nbins;
    char text[32];
    plot_time_axis(c, &u->area, top, top + PANEL_HEIGHT);
    for (size_t i = 0; i < u->nbins; i++) {
        double bottom = top + PANEL_HEIGHT;
        for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
            double part = PANEL_HEIGHT * u->bins[i][order[k]] / u->weight;
            if (part > 0)
                canvas_rectangle(c, u->area.x + (double)i * width, bottom - part, width, part, plot_state_colour[order[k]]);
            bottom -= part;
        }
    }
    for (int percent = 0; percent <= 100; percent += 20) {
        double y = top + PANEL_HEIGHT * (1 - percent / 100.0);
        canvas_line(c, u->area.x - 5, y, u->area.x, y, 1, PLOT_FAINT);
        if (percent > 0 && percent < 100)
            canvas_line(c, u->area.x, y, u->area.x + u->area.width, y, 0.5, 0xFFFFFF);
        snprintf(text, sizeof(text), "%d %%", percent);
        canvas_text(c, u->area.x - 10, y + 5, 14, false, CANVAS_RIGHT, PLOT_TEXT, text);
    }
    canvas_text(c, 16, top - 10, 15, true, CANVAS_LEFT, PLOT_TEXT, "Share of the ranks, as time goes on");
}

/* Percent in the bar where it is wide enough. */
static void draw_group(const struct utilisation *u, struct canvas *c, const struct group *g, double y)
{
    double x = u->area.x;
    char text[32];
    canvas_text(c, x - 10, y + 18, 14, false, CANVAS_RIGHT, PLOT_TEXT, g->name);
    for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
        double share = g->share[order[k]] / g->weight, width = share * u->area.width;
        bool dark = order[k] == STATE_COMPUTE || order[k] == STATE_EXPOSED_P2P;
        if (width <= 0)
            continue;
        canvas_rectangle(c, x, y, width, 24, plot_state_colour[order[k]]);
        snprintf(text, sizeof(text), "%.1f %%", 100 * share);
        if (width > 54)
            canvas_text(c, x + width / 2, y + 17, 14, false, CANVAS_CENTRE, dark ? 0xFFFFFF : PLOT_TEXT, text);
        x += width;
    }
}

static int draw(struct utilisation *u, const char *path, struct prism_error *err)
{
    const struct plot *p = u->p;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < u->ngroups; i++)
        shown += u->groups[i].weight > 0;
    double legend = plot_legend_height(p);
    struct canvas *c = canvas_create(path, p->width, 64 + legend + 46 + PANEL_HEIGHT + 110 + 30.0 * shown + 12, err);
    if (!c)
        return -1;
    double y = plot_heading(c, p, "utilisation", share_idle(u));
    plot_legend(c, 16, y, p->width - 32, false);
    y += legend + 46;
    draw_time(u, c, y);
    y += PANEL_HEIGHT + 100;
    canvas_text(c, 16, y - 12, 15, true, CANVAS_LEFT, PLOT_TEXT,
                p->nstages > 1 ? "Share of the time, by pipeline stage" : "Share of the time, by rank");
    for (uint32_t i = 0; i < u->ngroups; i++)
        if (u->groups[i].weight > 0) {
            draw_group(u, c, &u->groups[i], y);
            y += 30;
        }
    return canvas_finish(c, err);
}

int plot_utilisation(const struct plot *p, const char *path, struct prism_error *err)
{
    struct utilisation u = { .p = p, .area = { p->begin, p->end, 110, p->width - 110 - 30 } };
    uint32_t wanted = p->nstages > 1 ? p->nstages : p->t->nranks;
    u.nbins = (size_t)(u.area.width / BIN_PIXELS);
    u.area.width = (double)u.nbins * BIN_PIXELS; /* whole pixels: no seams */
    u.ngroups = wanted < GROUPS_MAX ? wanted : GROUPS_MAX;
    u.bins = calloc(u.nbins, sizeof(*u.bins));
    u.groups = calloc(u.ngroups, sizeof(*u.groups));
    if (!u.bins || !u.groups)
        abort();
    collect(&u);
    int result = draw(&u, path, err);
    free(u.bins);
    free(u.groups);
    return result;
}
