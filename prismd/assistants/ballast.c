#include "prismd/assistants/ballast.h"

#include <stdlib.h>

#include "coll/ballast.h"
#include "coll/types.h"

static struct {
    bool active;
    struct coll_ballast table;
    uint64_t *bytes; /* owned; by world rank */
    uint8_t *began;  /* owned; by world rank: has a communicator */
} ba;

int ballast_begin(const struct daemon *d, struct prism_error *err)
{
    const char *path = getenv("PRISM_BALLAST");
    if (d->phase != PHASE_EMULATE || !path || !*path)
        return 0;
    if (coll_ballast_load(&ba.table, path, err))
        return -1;
    ba.bytes = calloc(d->conf->world, sizeof *ba.bytes);
    ba.began = calloc(d->conf->world, 1);
    if (!ba.bytes || !ba.began)
        abort();
    ba.active = true;
    return 0;
}

void ballast_end(void)
{
    coll_ballast_clear(&ba.table);
    free(ba.bytes);
    free(ba.began);
    ba.bytes = NULL;
    ba.began = NULL;
    ba.active = false;
}

/* What the capture used it for; comm ALL: all of the rank's. */
#define ALL UINT32_MAX
static int uses_of(const struct graph_rank *g, uint32_t comm)
{
    int uses = 0;
    for (uint32_t i = 0; i < g->nnodes && uses != COLL_BALLAST_BOTH; i++) {
        const struct graph_node *n = &g->nodes[i];
        for (uint32_t p = 0; n->kind == GRAPH_COMM && (comm == ALL || n->comm == comm) && p < n->nparts; p++)
            uses |= coll_op_is_p2p(g->parts[n->first_part + p].op) ? COLL_BALLAST_MESSAGES : COLL_BALLAST_COLLECTIVES;
    }
    return uses;
}

void ballast_ask(const struct daemon *d, const struct rank *r, struct msg_comm_ready *ready)
{
    if (!ba.active || ready->size < 1)
        return;
    const struct graph_rank *g = &d->graph->ranks[r->number];
    uint64_t missing = coll_ballast_missing(&ba.table, ready->size, ready->real_size, uses_of(g, ready->comm),
                                            ba.began[r->number] ? -1 : uses_of(g, ALL));
    ba.began[r->number] = 1;
    uint64_t kib = (missing + 1023) >> 10;
    ready->ballast_kib = kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX; /* no device has so much */
    ready->ballast_nccl = (uint32_t)ba.table.nccl;
    ba.bytes[r->number] += (uint64_t)ready->ballast_kib << 10;
}

uint64_t ballast_bytes(uint32_t rank)
{
    return ba.active ? ba.bytes[rank] : 0;
}
