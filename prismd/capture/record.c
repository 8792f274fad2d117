#include "prismd/capture/record.h"

#include <stdlib.h>

#include "graph/recorder.h"

static struct graph_recorder *recorder; /* of capture */

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

void record_begin(struct daemon *d)
{
    recorder = graph_recorder_create(d->graph);
}

void record_end(void)
{
    graph_recorder_destroy(recorder);
    recorder = NULL;
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
