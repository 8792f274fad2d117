#include "prismd/replay/arrival.h"

#include <stdlib.h>
#include <string.h>

#include "coll/types.h"

/* Groups that one group may overtake: more than any host runs ahead, and few enough for the memory that they take. */
#define OVERTAKES_MAX (1u << 20)

void arrival_put(const struct player_arrival *a, struct bytes *out)
{
    bytes_put_u32(out, a->rank);
    bytes_put_u32(out, a->comm);
    bytes_put_u32(out, a->ordinal);
    bytes_put_u64(out, (uint64_t)a->start_ns);
    bytes_put_u32(out, a->nparts);
    bytes_put(out, a->parts, a->nparts * sizeof *a->parts);
}

int arrival_take(struct player_arrival *a, struct bytes_reader *b, const struct graph *g, const uint8_t *external, const uint32_t *so_far)
{
    *a = (struct player_arrival){0};
    a->rank = bytes_get_u32(b);
    a->comm = bytes_get_u32(b);
    a->ordinal = bytes_get_u32(b);
    a->start_ns = (int64_t)bytes_get_u64(b);
    a->nparts = bytes_get_u32(b);
    const void *parts = bytes_get(b, (size_t)a->nparts * sizeof *a->parts);
    if (!parts || !a->nparts || a->rank >= g->world || !external[a->rank] || a->comm >= g->ranks[a->rank].ncomms ||
        g->ranks[a->rank].comms[a->comm].global < 0 || a->ordinal > (uint64_t)so_far[a->rank] + OVERTAKES_MAX || a->start_ns < 0 ||
        a->start_ns > INT64_MAX / 2)
        return -1;
    if (!(a->parts = malloc(a->nparts * sizeof *a->parts)))
        abort();
    memcpy(a->parts, parts, a->nparts * sizeof *a->parts);
    int size = (int)g->comms[g->ranks[a->rank].comms[a->comm].global].size;
    for (uint32_t i = 0; i < a->nparts; i++) {
        const struct graph_part *p = &a->parts[i];
        if (!coll_part_is_possible(p->op, p->datatype, p->redop, p->count, p->peer, size))
            return -1;
    }
    return 0;
}
