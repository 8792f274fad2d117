/* names.h - what the nodes of the emulated cluster are called.
 *
 * PREFIX-prism0000, PREFIX-prism0001, ...: PREFIX is what the real nodes' names begin with ("gpu-a" of gpu-a017,
 * "node" of node[0-3]), so that scripts that choose by name go on working; "-prism" keeps them apart from real nodes, so that
 * an ssh to one fails with its name instead of reaching somebody else's. As many digits as the largest number needs.
 * Pure.
 */
#ifndef PRISM_COMMON_NAMES_H
#define PRISM_COMMON_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define NAMES_BASE_MAX 80  /* with the final NUL */
#define NAMES_NODE_MAX 96
#define NAMES_LIST_MAX 128

/* From Slurm's list of the real nodes ("gpu-a[017-018,020]", "node3") or one of them; a domain is left out. */
void names_base(const char *real_nodes, char base[NAMES_BASE_MAX]);
/* Name of logical node i of nodes in all. */
void names_node(const char *base, uint32_t nodes, uint32_t i, char name[NAMES_NODE_MAX]);
/* The first `some` of them as Slurm writes a list: "base[0000-1023]", "base0" for a single one. */
void names_list(const char *base, uint32_t nodes, uint32_t some, char list[NAMES_LIST_MAX]);
/* Number of the node that is called so; UINT32_MAX when it is none of them. What follows a dot is left out. */
uint32_t names_find(const char *base, uint32_t nodes, const char *name);
/* "8(x1024)": tasks on each node, as SLURM_TASKS_PER_NODE has it. */
void names_per_node(uint32_t each, uint32_t nodes, char text[32]);

#endif
