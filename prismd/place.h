/* place.h - which rank runs on which node and device. Pure functions of the configuration: every node computes the same. */
#ifndef PRISM_PRISMD_PLACE_H
#define PRISM_PRISMD_PLACE_H

#include "prismd/conf.h"

/* Capture: whole logical nodes, in contiguous blocks; of a folded capture the ranks that run, in contiguous blocks. */
uint32_t place_capture_node(const struct conf *c, uint32_t rank);
/* Hardware queues (CUDA_DEVICE_MAX_CONNECTIONS) of a rank's context in capture: every stream at a closed gate holds one, so
 * many are good, up to CUDA's 32. But the driver makes them one by one, for one context at a time: on an H200 in a
 * virtual machine a context of 32 queues took 2.3 s, and processes that wait for their turn for more than some 45 s get "out of
 * memory". And a device seems to have some 512 in all. So the ranks of a device share 128, and each gets between CUDA's default of
 * 8 and 32, 16 at least up to 16 ranks and 12 up to 32, so that many streams can be stopped; from 61 ranks on fewer than 8, 4 at least, so that the
 * sum stays below 480. PRISM_QUEUES overrides. */
uint32_t place_capture_queues(const struct conf *c);
/* Emulation and calibration: the i-th of n ranks that run; nodes are filled evenly, in order. */
uint32_t place_live_node(const struct conf *c, uint32_t i, uint32_t n);

#endif
