#include "prismd/assistants/assist_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "prismd/assistants/assist.h"
#include "prismd/place.h"
#include "trace/trace.h"

uint32_t assist_node(const struct conf *c, uint32_t a)
{
    return a % c->nodes;
}

uint32_t assist_count_here(const struct conf *c)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < (uint32_t)c->assistants; a++)
        n += assist_node(c, a) == c->node;
    return n;
}

uint32_t assist_count_live_here(const struct conf *c, uint32_t nlive)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < nlive; i++)
        n += place_live_node(c, i, nlive) == c->node;
    return n;
}

/* Of the node that has most. */
static uint32_t count_here_max(const struct conf *c)
{
    return ((uint32_t)c->assistants + c->nodes - 1) / c->nodes;
}

static uint32_t count_live_here_max(const struct conf *c, uint32_t nlive)
{
    return (nlive + c->nodes - 1) / c->nodes;
}

int assist_check_devices(const struct conf *c, uint32_t nlive, struct prism_error *err)
{
    uint32_t ranks = assist_count_live_here(c, nlive), assistants = assist_count_here(c);
    if (ranks + assistants <= c->ndevices)
        return 0;
    return prism_error_set(
        err, PRISM_EXIT_USAGE,
        "node %u has %u device%s, but %u sandbox rank%s and %u assistant%s need one each; ask for more GPUs, "
        "or for fewer sandbox ranks (%u now) or assistants (%d; --prism-assistants=0 needs none)",
        c->node, c->ndevices, c->ndevices == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", assistants,
        assistants == 1 ? "" : "s", nlive, c->assistants);
}

static void list_ranks(const uint32_t *ranks, uint32_t n, char *text, size_t len)
{
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < n && at + 16 < len; i++)
        at += (size_t)snprintf(text + at, len - at, "%s%u", i ? "," : "", ranks[i]);
    if (at + 16 >= len)
        snprintf(text + at, len - at, ",...");
}

static int check_sandbox(const struct conf *c, const struct trace_manifest *m, struct prism_error *err)
{
    char then[256], now[256];
    if (m->nsandbox == c->nsandbox && !memcmp(m->sandbox, c->sandbox, c->nsandbox * sizeof *c->sandbox))
        return 0;
    list_ranks(m->sandbox, m->nsandbox, then, sizeof then);
    list_ranks(c->sandbox, c->nsandbox, now, sizeof now);
    return prism_error_set(err, PRISM_EXIT_TRACE,
                           "the sums in the trace %s are exact for sandbox ranks %s, not for %s; capture "
                           "again with this set, or "
                           "use --prism-assistants=0",
                           c->trace, then, now);
}

int assist_check(const struct conf *c, const struct trace_manifest *m, struct prism_error *err)
{
    if (c->assistants <= 0 || c->phase == CONF_CAPTURE || c->phase == CONF_CALIBRATE)
        return 0;
    if (assist_check_devices(c, c->nsandbox, err))
        return -1;
    return m ? check_sandbox(c, m, err) : 0;
}

/* Is what the assistant takes part in the full operation? All members are there, or stand in their own place, on devices
 * joined as the full job's would be: one node for both. Where NCCL_HOSTID is set, for the assistants by our environment and
 * for a rank by what starts it, each is a host of its own to NCCL: so must the full job's members be. */
bool assist_stands_for_full(const struct daemon *d, const struct shrink *s)
{
    const struct graph_comm *c = &d->graph->comms[s->global];
    bool apart = getenv("NCCL_HOSTID") != NULL;
    if (d->conf->nodes != 1 || s->n + shrink_assistants(s) != s->size || (apart && s->n > 1))
        return false;
    for (uint32_t i = 1; i < c->size; i++)
        for (uint32_t k = 0; k < i; k++)
            if (((uint32_t)c->ranks[i] / d->graph->gpus_per_node == (uint32_t)c->ranks[k] / d->graph->gpus_per_node) == apart)
                return false;
    return true;
}

bool assist_has_collectives_only(const struct graph *g, const struct shrink *s)
{
    const struct graph_rank *r = &g->ranks[s->worlds[0]];
    for (uint32_t i = 0; s->n && i < r->nnodes; i++)
        for (uint32_t p = 0; r->nodes[i].kind == GRAPH_COMM && r->nodes[i].comm == s->comms[0] && p < r->nodes[i].nparts; p++)
            if (coll_op_is_p2p(r->parts[r->nodes[i].first_part + p].op))
                return false;
    return true;
}

uint32_t assist_slice(const struct conf *c)
{
    uint32_t n = c->ndevices * c->nodes;
    while (n && c->assistants > 0 && count_live_here_max(c, n) + count_here_max(c) > c->ndevices)
        n--;
    return c->assistants > 0 ? n : 0;
}
