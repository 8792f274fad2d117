/* units.h - space handed out in units (2 MiB each): of the pinned pool and of the spill file.
 *
 * A piece of any size may lie in several runs of units (extents): memory of hundreds of ranges comes and goes, and nothing
 * may fail for want of a run that is long enough. The fewest extents are not looked for: one run that is long enough,
 * the first found, else runs as they come.
 */
#ifndef PRISM_MOVER_UNITS_H
#define PRISM_MOVER_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define UNIT_BYTES (2ull << 20)

struct extent {
    uint64_t first, count; /* units */
};

struct extents {
    struct extent *list; /* owned */
    uint32_t n;
};

struct units {
    uint8_t *state; /* owned; one byte a unit: free, taken or retired */
    uint64_t count, free, retired;
    uint64_t slab; /* no run crosses a multiple of this; 0 = may */
};

/* More units at the end, free. */
void units_grow(struct units *u, uint64_t more);
/* Take `count` units. False: there are not so many, nothing was taken. */
bool units_take(struct units *u, uint64_t count, struct extents *out);
/* Give them back; the list is freed. */
void units_give(struct units *u, struct extents *e);

/* What is free of this run is not handed out any more; what is taken of it is left alone. */
void units_retire(struct units *u, struct extent run);
/* What is retired of it is free again. */
void units_restore(struct units *u, struct extent run);
/* How many of it are taken. */
uint64_t units_taken(const struct units *u, struct extent run);

void units_free(struct units *u);

#endif
