#include "prismd/place.h"

#include "graph/fold.h"

uint32_t place_capture_node(const struct conf *c, uint32_t rank)
{
    if (c->fold_nodes)
        return c->fold_nodes[rank];
    uint32_t logical_nodes = (c->world + c->gpus_per_node - 1) / c->gpus_per_node;
    if (logical_nodes < c->nodes)
        return (uint32_t)((uint64_t)rank * c->nodes / c->world);
    return (uint32_t)((uint64_t)(rank / c->gpus_per_node) * c->nodes / logical_nodes);
}

#define QUEUES_MOST     32u
#define QUEUES_LEAST    8u
#define QUEUES_A_DEVICE 128u /* of all contexts together; more, where ranks need as many to be switched */
/* Three quarters of a rank's queues may be stopped at once (preload/memory/park.h): six streams of eight would not do for a rank of several
 * communicators, which has a stream for each and the program's. */
#define QUEUES_SWITCHED 16u
#define RANKS_SWITCHED  16u
/* An H200's driver gave 31 contexts of 16 queues and refused the next for good ("out of memory"), and 32 of 12: some 512 queues seem to
 * be all there are. */
#define QUEUES_MANY     12u
#define RANKS_MANY      32u
/* So what all ranks of a device have together is kept below that, with room for prism-mover's context, for as many as get four each. */
#define QUEUES_IN_ALL 480u
#define QUEUES_FEWEST 4u

uint32_t place_capture_queues(const struct conf *c)
{
    if (c->queues)
        return c->queues;
    uint32_t devices = c->nodes * (c->ndevices ? c->ndevices : 1);
    uint32_t running = c->fold ? c->fold->nlive : c->world, ranks = (running + devices - 1) / devices;
    uint32_t n = QUEUES_A_DEVICE / (ranks ? ranks : 1), least = QUEUES_LEAST;
    if (ranks <= RANKS_MANY)
        least = ranks <= RANKS_SWITCHED ? QUEUES_SWITCHED : QUEUES_MANY;
    n = n < least ? least : n > QUEUES_MOST ? QUEUES_MOST : n;
    if (n * ranks > QUEUES_IN_ALL)
        n = QUEUES_IN_ALL / ranks;
    return n < QUEUES_FEWEST ? QUEUES_FEWEST : n;
}

uint32_t place_live_node(const struct conf *c, uint32_t i, uint32_t n)
{
    return n <= c->nodes ? i : (uint32_t)((uint64_t)i * c->nodes / n);
}
