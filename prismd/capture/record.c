#include "prismd/capture/record.h"

#include <stdlib.h>

#include "common/range_name.h"
#include "graph/recorder.h"

static struct graph_recorder *recorder; /* of capture */
static struct graph_marks *marks;       /* of the latest capture */

struct graph_part *record_parts(const struct group *g)
{
    struct graph_part *parts = malloc((g->nparts ? g->nparts : 1) * sizeof *parts);
    if (!parts)
        abort();
    for (uint32_t i = 0; i < g->nparts; i++)
        parts[i] = (struct graph_part){.op = g->parts[i].op,
                                       .datatype = g->parts[i].datatype,
                                       .redop = g->parts[i].redop,
                                       .peer = g->parts[i].peer,
                                       .count = g->parts[i].count};
    return parts;
}

static void forget_marks(void)
{
    graph_marks_destroy(marks);
    marks = NULL;
}

void record_begin(struct daemon *d)
{
    recorder = graph_recorder_create(d->graph);
    forget_marks();
    marks = graph_marks_create(d->conf->world);
}

void record_end(void)
{
    graph_recorder_destroy(recorder);
    recorder = NULL;
}

struct graph_marks *record_marks(void)
{
    return marks;
}

_Static_assert((int)MARK_PUSH == (int)GRAPH_MARK_PUSH && (int)MARK_POP == (int)GRAPH_MARK_POP && (int)MARK_DROP == (int)GRAPH_MARK_DROP, "the same numbers");

int record_mark(struct daemon *d, struct rank *r, const struct msg_mark *m)
{
    return graph_marks_add(marks, r->number, (int)m->kind, m->name, m->position) < 0 ? daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: malformed mark", r->number) : 0;
}

int record_find_iterations(struct daemon *d, uint32_t ended_after, struct prism_error *err)
{
    if (graph_find_iterations(d->graph, err))
        return -1;
    int marked = graph_find_marked_iterations(d->graph, marks, range_name(d->conf->iteration_range), ended_after);
    forget_marks();
    return marked;
}

uint32_t record_count_iterations(const struct daemon *d, uint32_t rank, uint32_t nodes)
{
    int64_t n = graph_count_marked_iterations(marks, rank, range_name(d->conf->iteration_range), nodes);
    return n < 0 ? graph_count_iterations(d->graph, rank, nodes) : (uint32_t)n; /* a name that is not there ends no capture, and keeps none from its end */
}

int record_node(struct daemon *d, struct rank *r, const struct msg_node *m, const struct group *g)
{
    struct graph_node n = {.kind = m->kind,
                           .host = m->host,
                           .stream = m->stream,
                           .dep = m->dep ? m->index - (m->dep - 1) : 0,
                           .comm = m->comm,
                           .ordinal = g ? g->ordinal : 0};
    if (m->dep > m->index)
        return daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: node %u depends on a later one", r->number, m->index);
    struct graph_part *parts = g ? record_parts(g) : NULL;
    int rc = graph_record(recorder, r->number, &n, parts, g ? g->nparts : 0);
    free(parts);
    return rc < 0 ? daemon_fail(d, PRISM_EXIT_DAEMON, "rank %u: node %u is none that can be recorded", r->number, m->index) : 0;
}
