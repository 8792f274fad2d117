/* board.h - what the ranks of a node share with its prismd in capture, where they are too many to be listened to one by one.
 *
 * A rank has a seat (msg_welcome). A stream of it that has written the arrive word of a gate (region.h) writes 1 to the flag of its seat, and then 1 to
 * the bell; prismd sleeps on the bell, sets it back, and then takes the flags that are set. A flag says no more than: look at this
 * rank's gates. All words are 32 bits, written in this order by CPUs (which wake the bell's sleepers) or GPUs (which do not).
 */
#ifndef PRISM_PROTO_BOARD_H
#define PRISM_PROTO_BOARD_H

#include <stddef.h>
#include <stdint.h>

struct board {
    _Alignas(64) uint32_t bell;
    uint32_t unused[15];
    uint32_t flags[]; /* by seat */
};

static inline size_t board_size(uint32_t seats)
{
    size_t page = 4096, size = sizeof(struct board) + (size_t)seats * sizeof(uint32_t);
    return (size + page - 1) / page * page;
}

#endif
