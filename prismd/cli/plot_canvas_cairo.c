/* plot_canvas_cairo.c - see plot_canvas.h. */
#include <cairo-svg.h>
#include <cairo.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "plot_canvas.h"

#define CAIRO_LIBRARY "libcairo.so.2"

/* What we call of cairo. */
#define FUNCTIONS(X)                                                                                                     \
    X(cairo_svg_surface_create) X(cairo_image_surface_create) X(cairo_surface_write_to_png) X(cairo_surface_status)      \
    X(cairo_surface_finish) X(cairo_surface_destroy) X(cairo_create) X(cairo_destroy) X(cairo_status)                    \
    X(cairo_status_to_string) X(cairo_set_source_rgb) X(cairo_paint) X(cairo_rectangle) X(cairo_fill) X(cairo_stroke)    \
    X(cairo_move_to) X(cairo_line_to) X(cairo_set_line_width) X(cairo_select_font_face) X(cairo_set_font_size)           \
    X(cairo_show_text) X(cairo_text_extents)

static struct {
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} cairo;

struct canvas {
    char *path; /* owned */
    bool png;
    cairo_surface_t *surface;
    cairo_t *context;
    uint32_t colour; /* of the rectangles not filled yet */
    bool open;       /* there are such */
};

static int load_cairo(struct prism_error *err)
{
    if (cairo.cairo_text_extents)
        return 0;
    void *library = dlopen(CAIRO_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "pictures are drawn by cairo, and %s is not here; install it (Debian: libcairo2)",
                               CAIRO_LIBRARY);
#define LOAD(name)                                                                                                       \
    if (!(*(void **)&cairo.name = dlsym(library, #name)))                                                                \
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, CAIRO_LIBRARY " has no " #name "; install cairo 1.10 or later");
    FUNCTIONS(LOAD)
#undef LOAD
    return 0;
}

static int not_written(const char *path, cairo_status_t status, struct prism_error *err)
{
    return prism_error_set(err, PRISM_EXIT_SYSTEM, "%s cannot be written: %s", path, cairo.cairo_status_to_string(status));
}

/* Rectangles of one colour are one path: that is most of an SVG's size. */
static void flush(struct canvas *c)
{
    if (c->open)
        cairo.cairo_fill(c->context);
    c->open = false;
}

static void set_colour(struct canvas *c, uint32_t colour)
{
    cairo.cairo_set_source_rgb(c->context, (colour >> 16 & 255) / 255.0, (colour >> 8 & 255) / 255.0, (colour & 255) / 255.0);
}

static void canvas_destroy(struct canvas *c)
{
    if (c->context)
        cairo.cairo_destroy(c->context);
    cairo.cairo_surface_destroy(c->surface);
    free(c->path);
    free(c);
}

struct canvas *canvas_create(const char *path, double width, double height, struct prism_error *err)
{
    const char *ending = strrchr(path, '.');
    bool png = ending && strcmp(ending, ".png") == 0;
    if (!png && (!ending || strcmp(ending, ".svg") != 0)) {
        prism_error_set(err, PRISM_EXIT_USAGE, "--output=%s: the name must end in .svg or .png", path);
        return NULL;
    }
    if (load_cairo(err) != 0)
        return NULL;
    struct canvas *c = calloc(1, sizeof(*c));
    if (!c || !(c->path = strdup(path)))
        abort();
    c->png = png;
    c->surface = png ? cairo.cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(width + 0.5), (int)(height + 0.5))
                     : cairo.cairo_svg_surface_create(path, width, height);
    cairo_status_t status = cairo.cairo_surface_status(c->surface);
    if (status != CAIRO_STATUS_SUCCESS) {
        not_written(path, status, err);
        canvas_destroy(c);
        return NULL;
    }
    c->context = cairo.cairo_create(c->surface);
    set_colour(c, 0xFFFFFF);
    cairo.cairo_paint(c->context);
    return c;
}

int canvas_finish(struct canvas *c, struct prism_error *err)
{
    flush(c);
    cairo_status_t status = cairo.cairo_status(c->context);
    if (status == CAIRO_STATUS_SUCCESS && c->png)
        status = cairo.cairo_surface_write_to_png(c->surface, c->path);
    cairo.cairo_surface_finish(c->surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo.cairo_surface_status(c->surface);
    int result = status == CAIRO_STATUS_SUCCESS ? 0 : not_written(c->path, status, err);
    canvas_destroy(c);
    return result;
}

void canvas_rectangle(struct canvas *c, double x, double y, double width, double height, uint32_t colour)
{
    if (c->open && c->colour != colour)
        flush(c);
    if (!c->open)
        set_colour(c, colour);
    c->open = true;
    c->colour = colour;
    cairo.cairo_rectangle(c->context, x, y, width, height);
}

void canvas_line(struct canvas *c, double x0, double y0, double x1, double y1, double width, uint32_t colour)
{
    flush(c);
    set_colour(c, colour);
    cairo.cairo_set_line_width(c->context, width);
    cairo.cairo_move_to(c->context, x0, y0);
    cairo.cairo_line_to(c->context, x1, y1);
    cairo.cairo_stroke(c->context);
}

static void set_font(struct canvas *c, double size, bool bold)
{
    cairo.cairo_select_font_face(c->context, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                                 bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo.cairo_set_font_size(c->context, size);
}

double canvas_text_width(struct canvas *c, double size, bool bold, const char *text)
{
    cairo_text_extents_t extents;
    set_font(c, size, bold);
    cairo.cairo_text_extents(c->context, text, &extents);
    return extents.x_advance;
}

void canvas_text(struct canvas *c, double x, double y, double size, bool bold, enum canvas_align align, uint32_t colour,
                 const char *text)
{
    flush(c);
    double width = canvas_text_width(c, size, bold, text);
    set_colour(c, colour);
    cairo.cairo_move_to(c->context, align == CANVAS_LEFT ? x : align == CANVAS_RIGHT ? x - width : x - width / 2, y);
    cairo.cairo_show_text(c->context, text);
}
