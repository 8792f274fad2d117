#include "prismd/place.h"

uint32_t place_capture_node(const struct conf *c, uint32_t rank)
{
    uint32_t logical_nodes = (c->world + c->gpus_per_node - 1) / c->gpus_per_node;
    if (logical_nodes < c->nodes)
        return (uint32_t)((uint64_t)rank * c->nodes / c->world);
    return (uint32_t)((uint64_t)(rank / c->gpus_per_node) * c->nodes / logical_nodes);
}

uint32_t place_live_node(const struct conf *c, uint32_t i, uint32_t n)
{
    return n <= c->nodes ? i : (uint32_t)((uint64_t)i * c->nodes / n);
}
