/* block_peer.h - peers by distance around the communicator, so that ranks that do the same look alike. Inside lib/graph only. */
#ifndef PRISM_GRAPH_BLOCK_PEER_H
#define PRISM_GRAPH_BLOCK_PEER_H

#include <stdint.h>

#include "graph/feeds.h"

/* In a file, the peer of a send or receive in an exchange with all members, in the order of their numbers (block_is_exchange): its number,
 * which is the same at every rank, with this bit. */
#define BLOCK_NUMBERED 0x40000000

/* Of a send or receive: how far behind `self` the peer is. Of all else, and when size is 0 (no communicator): as it is. */
static inline int32_t block_relative(uint8_t op, int32_t peer, int32_t self, uint32_t size)
{
    if (graph_feeds(op) < GRAPH_FEEDS_SEND || !size || peer < 0 || (uint32_t)peer >= size)
        return peer;
    return (int32_t)(((uint32_t)peer + size - (uint32_t)self) % size);
}

static inline int32_t block_absolute(uint8_t op, int32_t relative, int32_t self, uint32_t size)
{
    if (graph_feeds(op) >= GRAPH_FEEDS_SEND && relative >= BLOCK_NUMBERED)
        return relative & ~BLOCK_NUMBERED;
    if (graph_feeds(op) < GRAPH_FEEDS_SEND || !size || relative < 0 || (uint32_t)relative >= size)
        return relative;
    return (int32_t)(((uint64_t)(uint32_t)relative + (uint32_t)self) % size);
}

#endif
