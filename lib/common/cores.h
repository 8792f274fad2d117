/* cores.h - how many processors this process may use: an allocation is often a part of its node, a container of its time. */
#ifndef PRISM_COMMON_CORES_H
#define PRISM_COMMON_CORES_H

#include <stdint.h>

/* Those of its affinity, and no more than the time that its cgroup gets (cpu.max; version 1: cpu.cfs_quota_us), rounded up: 1.5
 * processors are 2. At least 1. The cgroup is looked at in the first call. */
uint32_t cores_usable(void);
/* The same where /proc and /sys lie below root (""), looked at now. */
uint32_t cores_usable_below(const char *root);

#endif
