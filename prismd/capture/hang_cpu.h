/* hang_cpu.h - which ranks' processes use the processor: between two looks at /proc. */
#ifndef PRISM_PRISMD_HANG_CPU_H
#define PRISM_PRISMD_HANG_CPU_H

#include "prismd/daemon.h"

#define HANG_CPU_NOBODY UINT32_MAX
#define HANG_CPU_SHARE  0.02 /* of one core: polling threads stay below */

struct hang_cpu;

/* Processor time so far of all processes of this node's ranks: the process that was started, its group and session, and the
 * one that became the rank with its children. */
struct hang_cpu *hang_cpu_create(const struct daemon *d);
void hang_cpu_destroy(struct hang_cpu *c); /* NULL is fine */
/* A rank that is in no synchronisation and whose processes have used more than that share since; HANG_CPU_NOBODY. */
uint32_t hang_cpu_busy_rank(const struct hang_cpu *c, const struct daemon *d);

#endif
