/* plot_timeline.c - a row a rank: what its device does, and where there is room what each of its streams does. */
#include <stdio.h>
#include <stdlib.h>

#include "plot.h"

#define LANE_HEIGHT  15.0
#define STRIP_HEIGHT 22.0
#define SHARE_WIDTH  82.0 /* columns of numbers on the right */
#define LANES_MAX    64 /* more rows than that: no lanes for streams */

struct row {
    struct spans spans;
    struct plot_bar *states; /* owned */
    size_t nstates;
    double share[STATES];
    uint32_t *streams; /* owned; those with bars in the window */
    uint32_t nstreams;
};

struct picture {
    const struct plot *p;
    struct row *rows;
    bool lanes;
    double row_height, strip_height;
    struct plot_area area;
    struct canvas *c;
};

static bool on_stream(const struct span *s)
{
    return s->kind < SPAN_HOST_WORK;
}

static void find_streams(struct row *row, uint32_t nstreams)
{
    bool *seen = calloc(nstreams + 1u, sizeof(*seen));
    row->streams = calloc(nstreams + 1u, sizeof(*row->streams));
    if (!seen || !row->streams)
        abort();
    for (size_t i = 0; i < row->spans.n; i++)
        if (on_stream(&row->spans.list[i]))
            seen[row->spans.list[i].line] = true;
    for (uint32_t s = 0; s < nstreams; s++)
        if (seen[s])
            row->streams[row->nstreams++] = s;
    free(seen);
}

static struct row *make_rows(const struct plot *p)
{
    struct row *rows = calloc(p->t->nranks + 1u, sizeof(*rows));
    if (!rows)
        abort();
    for (uint32_t i = 0; i < p->t->nranks; i++) {
        plot_states(p, i, rows[i].share, &rows[i].states, &rows[i].nstates);
        spans_of_rank(p->t, i, p->begin, p->end, &rows[i].spans);
        find_streams(&rows[i], p->t->g->ranks[p->t->ranks[i]].nstreams);
    }
    return rows;
}

static void free_rows(struct row *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        spans_clear(&rows[i].spans);
        free(rows[i].states);
        free(rows[i].streams);
    }
    free(rows);
}

/* Few ranks get a lane a stream; the more there are, the thinner the rows. */
static double lay_out(struct picture *d)
{
    uint32_t n = d->p->t->nranks, lanes = 0;
    double height = 0;
    for (uint32_t i = 0; i < n; i++)
        lanes += d->rows[i].nstreams + 1;
    d->lanes = n <= 8 && lanes <= LANES_MAX;
    d->row_height = n <= 24 ? 32 : n <= 64 ? 19 : n <= 160 ? 9 : 4;
    d->strip_height = d->lanes ? STRIP_HEIGHT : (double)(int)(d->row_height * 0.86);
    for (uint32_t i = 0; i < n; i++)
        height += d->lanes ? STRIP_HEIGHT + 14 + d->rows[i].nstreams * (LANE_HEIGHT + 2) : d->row_height;
    return height;
}

static void draw_lane(const struct picture *d, const struct row *row, uint32_t stream, double y)
{
    struct plot_bar *bars = calloc(row->spans.n + 1, sizeof(*bars));
    size_t n = 0;
    char text[32];
    if (!bars)
        abort();
    for (size_t i = 0; i < row->spans.n; i++) {
        const struct span *s = &row->spans.list[i];
        if (on_stream(s) && s->line == stream)
            bars[n++] = (struct plot_bar){ s->start, s->end, plot_span_colour[s->kind] };
    }
    plot_bars(d->c, &d->area, y, LANE_HEIGHT, bars, n);
    snprintf(text, sizeof(text), "stream %u", stream);
    canvas_text(d->c, d->area.x - 8, y + LANE_HEIGHT - 3, 12, false, CANVAS_RIGHT, PLOT_FAINT, text);
    free(bars);
}

static void label(const struct picture *d, uint32_t i, double y)
{
    const struct plot *p = d->p;
    const struct row *row = &d->rows[i];
    uint32_t rank = p->t->ranks[i];
    double size = d->row_height >= 24 || d->lanes ? 14 : 13, base = y + d->strip_height / 2 + size * 0.36;
    double at = d->area.x + d->area.width;
    const double shares[] = { row->share[STATE_COMPUTE] + row->share[STATE_HIDDEN_COLLECTIVE] + row->share[STATE_HIDDEN_P2P],
                              row->share[STATE_EXPOSED_COLLECTIVE] + row->share[STATE_EXPOSED_P2P], row->share[STATE_IDLE] };
    char text[64];
    if (p->nstages > 1)
        snprintf(text, sizeof(text), "stage %u, rank %u", p->stage[rank], rank);
    else
        snprintf(text, sizeof(text), "rank %u", rank);
    canvas_text(d->c, d->area.x - 8, base, size, d->lanes, CANVAS_RIGHT, PLOT_TEXT, text);
    for (int k = 0; k < 3; k++) {
        snprintf(text, sizeof(text), "%.1f", 100 * shares[k]);
        canvas_text(d->c, at + SHARE_WIDTH * (k + 1), base, size, false, CANVAS_RIGHT, PLOT_TEXT, text);
    }
}

static void draw_rows(const struct picture *d, double y)
{
    /* Where rows are thinner than text, some of them are named. */
    uint32_t every = d->row_height >= 16 || d->lanes ? 1 : (uint32_t)(16 / d->row_height) + 1;
    for (uint32_t i = 0; i < d->p->t->nranks; i++) {
        const struct row *row = &d->rows[i];
        plot_bars(d->c, &d->area, y, d->strip_height, row->states, row->nstates);
        if (i % every == 0)
            label(d, i, y);
        if (!d->lanes) {
            y += d->row_height;
            continue;
        }
        y += STRIP_HEIGHT + 2;
        for (uint32_t s = 0; s < row->nstreams; s++, y += LANE_HEIGHT + 2)
            draw_lane(d, row, row->streams[s], y);
        y += 12;
    }
}

static void explain_stacks(const struct picture *d, double y)
{
    for (uint32_t i = 0; i < d->p->t->nranks; i++)
        if (plot_bars_stacked(&d->area, d->rows[i].nstates)) {
            canvas_text(d->c, 16, y, 13, false, CANVAS_LEFT, PLOT_FAINT,
                        "Where changes are closer than pixels, heights in a row are shares of the time.");
            return;
        }
}

static void draw_heads(const struct picture *d, double y)
{
    static const char *const heads[] = { "compute %", "exposed %", "idle %" };
    for (int k = 0; k < 3; k++)
        canvas_text(d->c, d->area.x + d->area.width + SHARE_WIDTH * (k + 1), y, 13, false, CANVAS_RIGHT, PLOT_FAINT, heads[k]);
}

int plot_timeline(const struct plot *p, const char *path, struct prism_error *err)
{
    struct picture d = { .p = p, .rows = make_rows(p) };
    double rows = lay_out(&d), idle = 0, weight = 0;
    double legend = plot_legend_height(p);
    for (uint32_t i = 0; i < p->t->nranks; i++) {
        idle += d.rows[i].share[STATE_IDLE] * p->weight[i];
        weight += p->weight[i];
    }
    d.area = (struct plot_area){ .begin = p->begin, .end = p->end, .x = 170, .width = (double)(int)(p->width - 170 - 3 * SHARE_WIDTH - 16) };
    d.c = canvas_create(path, p->width, 64 + legend + 30 + rows + 84, err);
    if (d.c) {
        double y = plot_heading(d.c, p, "timeline", weight > 0 ? idle / weight : 0);
        plot_legend(d.c, 16, y, p->width - 32, d.lanes);
        y += legend + 30;
        plot_time_axis(d.c, &d.area, y - 6, y + rows);
        draw_heads(&d, y - 10);
        draw_rows(&d, y);
        explain_stacks(&d, y + rows + 72);
    }
    free_rows(d.rows, p->t->nranks);
    return d.c ? canvas_finish(d.c, err) : -1;
}
