/* place.h - which rank runs on which node and device. Pure functions of the configuration: every node computes the same. */
#ifndef PRISM_PRISMD_PLACE_H
#define PRISM_PRISMD_PLACE_H

#include "prismd/conf.h"

/* Capture: whole logical nodes, in contiguous blocks. */
uint32_t place_capture_node(const struct conf *c, uint32_t rank);
/* Hardware queues (CUDA_DEVICE_MAX_CONNECTIONS) of a rank's context in capture: every stream at a closed gate holds one, so
 * many are good, up to CUDA's 32. But a device has only so many channels for all contexts, and each queue takes some: on
 * an H200 contexts of 32 queues fail somewhere between 20 and 28 processes. 8 is CUDA's own default. */
uint32_t place_capture_queues(const struct conf *c);
/* Emulation and calibration: the i-th of n ranks that run; nodes are filled evenly, in order. */
uint32_t place_live_node(const struct conf *c, uint32_t i, uint32_t n);

#endif
