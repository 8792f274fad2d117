/* cores.h - how many processors this process may use: an allocation is often a part of its node. */
#ifndef PRISM_COMMON_CORES_H
#define PRISM_COMMON_CORES_H

#include <sched.h>
#include <stdint.h>

static inline uint32_t cores_usable(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

#endif
