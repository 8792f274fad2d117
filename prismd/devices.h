/* devices.h - the physical devices that this node's prismd may use. */
#ifndef PRISM_PRISMD_DEVICES_H
#define PRISM_PRISMD_DEVICES_H

#include <stdint.h>

#include "common/error.h"

/* Ids for CUDA_VISIBLE_DEVICES: that variable's own list if it is set (Slurm sets it), else 0 .. n-1 as a child process
 * counts them through libcuda.so.1 (prismd itself never initialises CUDA). PRISM_DEVICES_PER_NODE caps the number. */
int devices_find(char ***devices, uint32_t *n, struct prism_error *err);

#endif
