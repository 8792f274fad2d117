#include "prismd/capture/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/log.h"
#include "graph/fold.h"
#include "prismd/capture/record.h"
#include "prismd/link/link.h"
#include "prismd/switching/movers.h"

#define LEAST   65u
#define TELL_NS (2 * NSEC_PER_SEC)
#define LINE_NS (10 * NSEC_PER_SEC)

static struct {
    struct progress own;
    struct progress *nodes; /* owned; coordinator: by node */
    int64_t began_ns, tell_ns, line_ns;
    int64_t last_ns; /* of the last line */
    int64_t ending_ns; /* since when ranks have ended; 0 = none has */
    uint64_t last_groups;
} progress;

static void add_number(char *line, size_t len, size_t *at, uint64_t n)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < count && *at + 2 < len; i++) {
        line[(*at)++] = digits[i];
        if ((count - i - 1) % 3 == 0 && i + 1 < count)
            line[(*at)++] = ',';
    }
    line[*at] = 0;
}

static void add(char *line, size_t len, size_t *at, const char *text)
{
    int n = snprintf(line + *at, len - *at, "%s", text);
    *at = n > 0 && *at + (size_t)n < len ? *at + (size_t)n : len - 1;
}

static void add_seconds(char *line, size_t len, size_t *at, double seconds)
{
    char text[64];
    if (seconds < 90)
        snprintf(text, sizeof text, "%.0f s", seconds);
    else
        snprintf(text, sizeof text, "%.1f min", seconds / 60);
    add(line, len, at, text);
}

/* Ranks that have ended, or iterations that are done, say how much there is to come. Negative: nobody knows. */
static double seconds_left(const struct progress *p, double seconds, double ending, uint32_t wanted)
{
    if (p->ended)
        return ending > 0 ? ending * (p->ranks - p->ended) / p->ended : -1;
    if (p->began < p->ranks || !wanted || !p->iterations || p->iterations > wanted)
        return -1;
    return seconds * (wanted + 1.0 - p->iterations) / p->iterations; /* one more shows that the last is over */
}

void progress_line(const struct progress *p, double rate, double seconds, double ending, uint32_t wanted, char *line, size_t len)
{
    size_t at = 0;
    add(line, len, &at, "capture: ");
    add_number(line, len, &at, p->began);
    add(line, len, &at, " of ");
    add_number(line, len, &at, p->ranks);
    add(line, len, &at, " ranks have begun, ");
    if (p->ended) {
        add_number(line, len, &at, p->ended);
        add(line, len, &at, " have ended, ");
    }
    add_number(line, len, &at, p->groups);
    add(line, len, &at, " groups of operations (");
    add_number(line, len, &at, (uint64_t)rate);
    add(line, len, &at, " a second)");
    if (p->iterations) {
        add(line, len, &at, ", iteration ");
        add_number(line, len, &at, p->iterations);
    }
    add(line, len, &at, ", after ");
    add_seconds(line, len, &at, seconds);
    double left = seconds_left(p, seconds, ending, wanted);
    if (p->began < p->ranks && p->began && seconds > 0) {
        add(line, len, &at, ", all will have begun in ");
        add_seconds(line, len, &at, seconds * (p->ranks - p->began) / p->began);
    } else if (left >= 0) {
        add(line, len, &at, ", about ");
        add_seconds(line, len, &at, left);
        add(line, len, &at, " left");
    }
}

static void say(struct daemon *d, int64_t now)
{
    struct progress all = {0};
    char line[400];
    for (uint32_t i = 0; i < d->conf->nodes; i++) {
        const struct progress *p = &progress.nodes[i];
        all.ranks += p->ranks;
        all.began += p->began;
        all.ended += p->ended;
        all.groups += p->groups;
        all.iterations = !i || p->iterations < all.iterations ? p->iterations : all.iterations;
    }
    all.ranks = d->conf->fold ? d->conf->fold->nlive : d->conf->world;
    double rate = now > progress.last_ns ? (double)(all.groups - progress.last_groups) * 1e9 / (double)(now - progress.last_ns) : 0;
    if (all.ended && !progress.ending_ns)
        progress.ending_ns = progress.last_ns; /* at the earliest */
    double ending = progress.ending_ns ? (double)(now - progress.ending_ns) / 1e9 : 0;
    progress_line(&all, rate, (double)(now - progress.began_ns) / 1e9, ending, d->conf->iterations, line, sizeof line);
    log_info("%s", line);
    progress.last_ns = now;
    progress.last_groups = all.groups;
}

static void on_progress(struct daemon *d, uint32_t from, struct bytes_reader *b)
{
    struct progress p;
    p.ranks = bytes_get_u32(b);
    p.began = bytes_get_u32(b);
    p.ended = bytes_get_u32(b);
    p.groups = bytes_get_u64(b);
    p.iterations = bytes_get_u32(b);
    if (!b->bad && progress.nodes && from < d->conf->nodes)
        progress.nodes[from] = p;
}

/* Iterations are looked for in one rank a node: it costs time in its nodes. */
static void count(struct daemon *d)
{
    struct progress *p = &progress.own;
    const struct rank *first = NULL;
    p->ranks = p->began = p->ended = 0;
    for (uint32_t i = 0; i < d->conf->world; i++) {
        const struct rank *r = d->ranks[i];
        if (!r)
            continue;
        first = first ? first : r;
        p->ranks++;
        p->began += r->hello;
        p->ended += r->state == RANK_ENDED;
    }
    if (first && first->nodes)
        p->iterations = record_count_iterations(d, first->number, first->nodes);
}

void progress_begin(struct daemon *d)
{
    progress.own = (struct progress){0};
    free(progress.nodes);
    progress.nodes = calloc(d->conf->nodes, sizeof *progress.nodes);
    if (!progress.nodes)
        abort();
    progress.began_ns = progress.last_ns = clock_now_ns();
    progress.tell_ns = progress.began_ns + LINE_NS - TELL_NS;
    progress.line_ns = progress.began_ns + LINE_NS;
    progress.last_groups = 0;
    progress.ending_ns = 0;
    link_on(LINK_PROGRESS, on_progress);
}

void progress_opened(void)
{
    progress.own.groups++;
}

void progress_tick(struct daemon *d)
{
    int64_t now = clock_now_ns();
    bool slow = movers_switch() || (d->conf->fold ? d->conf->fold->nlive : d->conf->world) >= LEAST;
    if (d->phase != PHASE_CAPTURE || d->stopping || !slow || now < progress.tell_ns)
        return;
    progress.tell_ns = now + TELL_NS;
    count(d);
    struct bytes b = {0};
    bytes_put_u32(&b, progress.own.ranks);
    bytes_put_u32(&b, progress.own.began);
    bytes_put_u32(&b, progress.own.ended);
    bytes_put_u64(&b, progress.own.groups);
    bytes_put_u32(&b, progress.own.iterations);
    link_send(d, 0, LINK_PROGRESS, &b);
    bytes_free(&b);
    if (d->conf->node || now < progress.line_ns)
        return;
    progress.line_ns = now + LINE_NS;
    say(d, now);
}
