/* available.h - how much memory the node, and the control groups that the mover is in, can still give. */
#ifndef PRISM_MOVER_AVAILABLE_H
#define PRISM_MOVER_AVAILABLE_H

#include <stdint.h>

struct available {
    uint64_t bytes; /* that can be taken now; UINT64_MAX: the system does not say */
    uint64_t total; /* that there are: of the node, or of the smallest group */
};

/* bytes: the smaller of MemAvailable and what each group leaves of its limit (version 2: memory.max and memory.high; version 1:
 * memory.limit_in_bytes), where pages of files that were not used lately (inactive_file), which the kernel takes back before it
 * kills anyone, are not counted as used. Pinned memory is neither available nor inactive: all the numbers know of it.
 * On a virtual machine that is given memory as it uses it both may grow from one look to the next.
 *
 * For tests: PRISM_TEST_MEMORY names a folder in which proc/meminfo, proc/self/cgroup and sys/fs/cgroup are looked for. */
void available_look(struct available *a);

#endif
