/* queue.h - how much of what was put on a stream lies behind the place where it may come to stand (room.h). */
#ifndef PRISM_PRELOAD_QUEUE_H
#define PRISM_PRELOAD_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

struct queue_behind {
    uint64_t operations;
    uint64_t stop; /* names that stop; 0: there is none */
    bool parked;   /* the rank is being moved off its device, or is off it */
    bool at_park;  /* and that stop is a park gate, or a wait for a stream that has one first */
};

/* n operations more were, or will be, put on the stream. Returns how many lie behind the first of its stops that is not over
 * (park.h: gates, park gates, waits for events), for the default stream behind those of the blocking streams too: the most of
 * them. Needs no lock. */
struct queue_behind queue_behind(CUstream stream, uint32_t n);

#endif
