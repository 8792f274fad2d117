/* plot_canvas.h - the few shapes that `prism plot` draws, into an SVG or PNG file, by cairo.
 *
 * cairo is looked for when a canvas is made (dlopen), so that `prism` starts on machines without it. Units are pixels,
 * y grows downwards. Colours are 0xRRGGBB. */
#ifndef PRISM_CLI_PLOT_CANVAS_H
#define PRISM_CLI_PLOT_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct canvas;

enum canvas_align { CANVAS_LEFT, CANVAS_CENTRE, CANVAS_RIGHT };

/* A white picture. The file's form is its name's ending, .svg or .png. NULL with err: another ending
 * (PRISM_EXIT_USAGE), no cairo here (PRISM_EXIT_UNSUPPORTED), the file cannot be written (PRISM_EXIT_SYSTEM). */
struct canvas *canvas_create(const char *path, double width, double height, struct prism_error *err);
/* Writes the file and frees the canvas. -1 with err. */
int canvas_finish(struct canvas *c, struct prism_error *err);

void canvas_rectangle(struct canvas *c, double x, double y, double width, double height, uint32_t colour);
void canvas_line(struct canvas *c, double x0, double y0, double x1, double y1, double width, uint32_t colour);
/* y is the base line. */
void canvas_text(struct canvas *c, double x, double y, double size, bool bold, enum canvas_align align, uint32_t colour,
                 const char *text);
double canvas_text_width(struct canvas *c, double size, bool bold, const char *text);

#endif
