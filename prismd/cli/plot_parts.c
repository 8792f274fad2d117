/* plot_parts.c - see plot.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plot.h"

const uint32_t plot_state_colour[STATES] = {
    [STATE_IDLE] = 0xE6E6E6,
    [STATE_COMPUTE] = 0x0072B2,
    [STATE_HIDDEN_COLLECTIVE] = 0x56B4E9,
    [STATE_HIDDEN_P2P] = 0x56B4E9,
    [STATE_EXPOSED_COLLECTIVE] = 0xE69F00,
    [STATE_EXPOSED_P2P] = 0xAA4499,
};
const uint32_t plot_span_colour[SPAN_KINDS] = {
    [SPAN_COMPUTE] = 0x0072B2,
    [SPAN_COLLECTIVE] = 0xE69F00,
    [SPAN_P2P] = 0xAA4499,
    [SPAN_WAIT_COLLECTIVE] = 0xFBE7BF,
    [SPAN_WAIT_P2P] = 0xECD5E9,
    [SPAN_HOST_WORK] = 0x009E73,
    [SPAN_HOST_WAIT] = 0xC8E6DB,
};

double plot_x(const struct plot_area *a, int64_t ns)
{
    return a->x + (double)(ns - a->begin) / (double)(a->end - a->begin) * a->width;
}

double plot_heading(struct canvas *c, const struct plot *p, const char *what, double share_idle)
{
    char text[1024], took[64], iterations[64];
    if (p->first == p->last)
        snprintf(iterations, sizeof(iterations), "iteration %u", p->first);
    else
        snprintf(iterations, sizeof(iterations), "iterations %u to %u", p->first, p->last);
    snprintf(text, sizeof(text), "%s: %s, %s", p->name, what, iterations);
    canvas_text(c, 16, 32, 20, true, CANVAS_LEFT, PLOT_TEXT, text);
    format_seconds(took, sizeof(took), (double)(p->end - p->begin) * 1e-9);
    if (p->t->nranks == p->t->g->world)
        snprintf(text, sizeof(text), "all %u ranks, %s, idle %.1f %%; network: %s", p->t->g->world, took,
                 100 * share_idle, p->network);
    else
        snprintf(text, sizeof(text), "%u of %u ranks (%s), %s, idle %.1f %%; network: %s", p->t->nranks, p->t->g->world,
                 p->how, took, 100 * share_idle, p->network);
    canvas_text(c, 16, 54, 14, false, CANVAS_LEFT, PLOT_FAINT, text);
    return 64;
}

double plot_legend_height(const struct plot *p)
{
    return p->width < 1400 ? 44 : 22;
}

void plot_legend(struct canvas *c, double x, double y, double width, bool with_lanes)
{
    const struct {
        const char *text;
        uint32_t colour, second; /* 0: one colour */
    } entries[] = {
        { "compute", plot_state_colour[STATE_COMPUTE], 0 },
        { "compute, communication hidden behind it", plot_state_colour[STATE_HIDDEN_P2P], 0 },
        { with_lanes ? "collective (top strip: exposed)" : "exposed collective", plot_state_colour[STATE_EXPOSED_COLLECTIVE], 0 },
        { with_lanes ? "send, receive" : "exposed send, receive", plot_state_colour[STATE_EXPOSED_P2P], 0 },
        { "idle: bubble, waiting", plot_state_colour[STATE_IDLE], 0 },
        { "stream waits for other ranks", plot_span_colour[SPAN_WAIT_COLLECTIVE], plot_span_colour[SPAN_WAIT_P2P] },
    };
    size_t n = sizeof(entries) / sizeof(entries[0]) - !with_lanes;
    double at = x;
    for (size_t i = 0; i < n; i++) {
        double needs = 26 + canvas_text_width(c, 14, false, entries[i].text);
        if (at > x && at + needs > x + width) {
            at = x;
            y += 22;
        }
        canvas_rectangle(c, at, y + 4, 18, 14, entries[i].colour);
        if (entries[i].second)
            canvas_rectangle(c, at + 9, y + 4, 9, 14, entries[i].second);
        canvas_text(c, at + 24, y + 16, 14, false, CANVAS_LEFT, PLOT_TEXT, entries[i].text);
        at += needs + 18;
    }
}

static double nice_step(double range, double most)
{
    double raw = range / most, power = pow(10, floor(log10(raw)));
    for (double factor = 1; factor < 10; factor = factor < 2 ? 2 : factor < 5 ? 5 : 10)
        if (raw <= factor * power * (1 + 1e-9))
            return factor * power;
    return 10 * power;
}

void plot_time_axis(struct canvas *c, const struct plot_area *a, double top, double bottom)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
    double range = (double)(a->end - a->begin);
    size_t unit = 0;
    while (unit < 3 && range < 2 * units[unit].ns)
        unit++;
    double step = nice_step(range, a->width / 110);
    char text[64];
    for (long i = 0; (double)i * step <= range * (1 + 1e-9); i++) {
        double x = a->x + (double)i * step / range * a->width;
        canvas_line(c, x, top, x, bottom + 6, 1, i == 0 ? PLOT_FAINT : PLOT_GRID);
        snprintf(text, sizeof(text), "%.6g", (double)i * step / units[unit].ns);
        canvas_text(c, x, bottom + 22, 14, false, CANVAS_CENTRE, PLOT_TEXT, text);
    }
    snprintf(text, sizeof(text), "time from the iteration's begin (%s)", units[unit].name);
    canvas_text(c, a->x + a->width / 2, bottom + 44, 14, false, CANVAS_CENTRE, PLOT_TEXT, text);
}

/* From the bottom up in rows with more bars than columns of pixels. */
#define ROW_COLOURS 7
static size_t stack_index(uint32_t colour)
{
    const uint32_t stack[ROW_COLOURS] = {
        plot_state_colour[STATE_COMPUTE], plot_state_colour[STATE_HIDDEN_COLLECTIVE], plot_span_colour[SPAN_COLLECTIVE],
        plot_span_colour[SPAN_P2P], plot_span_colour[SPAN_WAIT_COLLECTIVE], plot_span_colour[SPAN_WAIT_P2P],
        plot_state_colour[STATE_IDLE],
    };
    size_t i = 0;
    while (i + 1 < ROW_COLOURS && stack[i] != colour)
        i++;
    return i;
}

/* Pixels of a column below the i'th colour: whole ones, which look sharp and keep an SVG small. */
static double below(const double share[ROW_COLOURS], size_t i, double height)
{
    double sum = 0;
    for (size_t k = 0; k < i; k++)
        sum += share[k];
    return round(height * fmin(sum, 1));
}

static void draw_layer(struct canvas *c, const struct plot_area *a, double y, double height, const double (*share)[ROW_COLOURS],
                       size_t ncolumns, size_t i, uint32_t colour)
{
    for (size_t at = 0, next; at < ncolumns; at = next) {
        double from = below(share[at], i, height), to = below(share[at], i + 1, height);
        for (next = at + 1; next < ncolumns && below(share[next], i, height) == from && below(share[next], i + 1, height) == to;)
            next++;
        if (to > from)
            canvas_rectangle(c, a->x + (double)at, y + height - to, (double)(next - at), to - from, colour);
    }
}

static void columns(struct canvas *c, const struct plot_area *a, double y, double height, const struct plot_bar *bars, size_t n)
{
    size_t ncolumns = (size_t)a->width;
    uint32_t colours[ROW_COLOURS] = { 0 };
    double(*share)[ROW_COLOURS] = calloc(ncolumns + 1, sizeof(*share));
    if (!share)
        abort();
    for (size_t i = 0; i < n; i++) {
        double from = plot_x(a, bars[i].start) - a->x, to = plot_x(a, bars[i].end) - a->x;
        size_t colour = stack_index(bars[i].colour);
        colours[colour] = bars[i].colour;
        for (size_t at = (size_t)from; at < ncolumns && (double)at < to; at++)
            share[at][colour] += fmin(to, (double)at + 1) - fmax(from, (double)at);
    }
    for (size_t i = 0; i < ROW_COLOURS; i++)
        draw_layer(c, a, y, height, share, ncolumns, i, colours[i]);
    free(share);
}

bool plot_bars_stacked(const struct plot_area *a, size_t n)
{
    return (double)n > a->width / 2;
}

void plot_bars(struct canvas *c, const struct plot_area *a, double y, double height, const struct plot_bar *bars, size_t n)
{
    if (plot_bars_stacked(a, n)) {
        columns(c, a, y, height, bars, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double x = plot_x(a, bars[i].start);
        canvas_rectangle(c, x, y, fmax(plot_x(a, bars[i].end) - x, 0.3), height, bars[i].colour);
    }
}

void plot_states(const struct plot *p, uint32_t slot, double share[STATES], struct plot_bar **bars, size_t *nbars)
{
    struct spans spans = { 0 };
    struct state_span *states;
    spans_of_rank(p->t, slot, p->begin, p->end, &spans);
    size_t n = states_of_rank(&spans, p->begin, p->end, &states);
    memset(share, 0, STATES * sizeof(*share));
    if (bars && !(*bars = malloc((n + 1) * sizeof(**bars))))
        abort();
    for (size_t i = 0; i < n; i++) {
        share[states[i].state] += (double)(states[i].end - states[i].start) / (double)(p->end - p->begin);
        if (bars)
            (*bars)[i] = (struct plot_bar){ states[i].start, states[i].end, plot_state_colour[states[i].state] };
    }
    if (nbars)
        *nbars = n;
    free(states);
    spans_clear(&spans);
}
