/* arrival.h - LINK_START: a live rank's group stands at its gate, told to all nodes.
 *
 * u32 rank, u32 the rank's number of the communicator, u32 ordinal, u64 graph time, u32 n, n struct graph_part as they lie in memory.
 */
#ifndef PRISM_PRISMD_ARRIVAL_H
#define PRISM_PRISMD_ARRIVAL_H

#include "common/bytes.h"
#include "prismd/replay/player.h"

void arrival_put(const struct player_arrival *a, struct bytes *out);
/* external: by world rank, which are live; so_far: by world rank, how many arrivals of it have been taken. a->parts is then the
 * caller's, NULL where there are none. -1: no live rank, no communicator or operation of it, a time that cannot be added to, or an
 * ordinal so far ahead that only its memory would be asked for. */
int arrival_take(struct player_arrival *a, struct bytes_reader *b, const struct graph *g, const uint8_t *external, const uint32_t *so_far);

#endif
