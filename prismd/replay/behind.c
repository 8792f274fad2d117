#include "prismd/replay/behind.h"

#include <stdlib.h>

void behind_clear(struct behind *b)
{
    free(b->ends);
    *b = (struct behind){0};
}

int64_t behind_arrival(const struct behind *b, uint32_t stream, int64_t ns)
{
    int64_t least = stream < b->nstreams ? b->ends[stream] : INT64_MIN;
    return ns - b->ns > least ? ns - b->ns : least;
}

int64_t behind_late(struct behind *b, int64_t open_ns, int64_t now_ns, int64_t carried_ns)
{
    int64_t late = now_ns - open_ns - (carried_ns < BEHIND_CARRIED_MOST_NS ? carried_ns : BEHIND_CARRIED_MOST_NS);
    if (late < BEHIND_LEAST_NS)
        return 0;
    b->ns += late;
    return late;
}

void behind_ended(struct behind *b, uint32_t stream, int64_t end_ns)
{
    if (stream >= b->nstreams) {
        b->ends = realloc(b->ends, (stream + 1u) * sizeof *b->ends);
        if (!b->ends)
            abort();
        while (b->nstreams <= stream)
            b->ends[b->nstreams++] = INT64_MIN;
    }
    b->ends[stream] = end_ns;
}
