/* place.h - which rank runs on which node and device. Pure functions of the configuration: every node computes the same. */
#ifndef PRISM_PRISMD_PLACE_H
#define PRISM_PRISMD_PLACE_H

#include "prismd/conf.h"

/* Capture: whole logical nodes, in contiguous blocks. */
uint32_t place_capture_node(const struct conf *c, uint32_t rank);
/* Emulation and calibration: the i-th of n ranks that run; nodes are filled evenly, in order. */
uint32_t place_live_node(const struct conf *c, uint32_t i, uint32_t n);

#endif
