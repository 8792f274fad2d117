/* plot_canvas_none.c - plot_canvas.h of a build without cairo's headers: a canvas is never made. */
#include <stddef.h>

#include "plot_canvas.h"

struct canvas *canvas_create(const char *path, double width, double height, struct prism_error *err)
{
    prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                    "%s: this prism was built without cairo, which draws; install libcairo2-dev (contrib/deps.sh) and build again",
                    path);
    return NULL;
}

int canvas_finish(struct canvas *c, struct prism_error *err)
{
    return 0;
}

void canvas_rectangle(struct canvas *c, double x, double y, double width, double height, uint32_t colour)
{
}

void canvas_line(struct canvas *c, double x0, double y0, double x1, double y1, double width, uint32_t colour)
{
}

void canvas_text(struct canvas *c, double x, double y, double size, bool bold, enum canvas_align align, uint32_t colour,
                 const char *text)
{
}

double canvas_text_width(struct canvas *c, double size, bool bold, const char *text)
{
    return 0;
}
