/* cores.h - how many processors this process may use: an allocation is often a part of its node. */
#ifndef PRISM_COMMON_CORES_H
#define PRISM_COMMON_CORES_H

#include <sched.h>
#include <stdint.h>

/* A set of 1,024 is refused by a kernel that can have more: this is 8,192, the most that Linux is built for. */
#define CORES_SETS 8

static inline uint32_t cores_usable(void)
{
    cpu_set_t sets[CORES_SETS];
    return sched_getaffinity(0, sizeof sets, sets) ? 1 : (uint32_t)CPU_COUNT_S(sizeof sets, sets);
}

#endif
