/* plot.h - the pictures of `prism plot` and what they share. */
#ifndef PRISM_CLI_PLOT_H
#define PRISM_CLI_PLOT_H

#include "plot_canvas.h"
#include "timeline_spans.h"
#include "timeline_select.h"

struct plot {
    const struct timeline *t; /* rows in the order of its ranks */
    const uint32_t *weight;   /* by slot: how many ranks it stands for */
    const uint32_t *stage;   /* by world rank: prismd/predict/stages.h */
    uint32_t nstages;
    const char *name, *how, *network; /* the trace's name, how the ranks were chosen, the profile */
    uint32_t first, last;     /* iterations */
    int64_t begin, end;       /* nanoseconds, begin < end */
    double width;             /* pixels */
};

/* -1 with err. */
int plot_timeline(const struct plot *p, const char *path, struct prism_error *err);    /* plot_timeline.c */
int plot_utilisation(const struct plot *p, const char *path, struct prism_error *err); /* plot_utilisation.c */

/* --- Colours (plot_parts.c) ---
 * Those of M. Okabe, K. Ito, "Color Universal Design", 2008, which people who see fewer colours tell apart; compute, the two kinds
 * of communication and idle also differ in lightness. */
#define PLOT_TEXT 0x222222u
#define PLOT_FAINT 0x666666u
#define PLOT_GRID 0xC8C8C8u
extern const uint32_t plot_state_colour[STATES];
extern const uint32_t plot_span_colour[SPAN_KINDS]; /* of bars on streams */

/* --- Parts --- */

/* Where time is drawn: x .. x + width is begin .. end. */
struct plot_area {
    int64_t begin, end;
    double x, width;
};
double plot_x(const struct plot_area *a, int64_t ns);

/* Title and a line below it; returns the y below them. */
double plot_heading(struct canvas *c, const struct plot *p, const char *what, double share_idle);
/* One row, or two where the picture is too narrow. with_lanes: waiting is explained too. */
double plot_legend_height(const struct plot *p);
void plot_legend(struct canvas *c, double x, double y, double width, bool with_lanes);
/* Ticks of 1, 2 or 5 times a power of ten, in the unit that fits; grid lines from top to bottom, numbers below. */
void plot_time_axis(struct canvas *c, const struct plot_area *a, double top, double bottom);

/* A row of states or of bars (n of them, ascending and without overlap). Where there are more than fit side by side, each
 * column of pixels shows the shares of time that each colour has, stacked. */
struct plot_bar {
    int64_t start, end;
    uint32_t colour;
};
bool plot_bars_stacked(const struct plot_area *a, size_t n);
void plot_bars(struct canvas *c, const struct plot_area *a, double y, double height, const struct plot_bar *bars, size_t n);

/* The shares of time of each state at the slot'th rank, and its row of states (n of them, malloc'ed; may be NULL). */
void plot_states(const struct plot *p, uint32_t slot, double share[STATES], struct plot_bar **bars, size_t *n);

#endif
