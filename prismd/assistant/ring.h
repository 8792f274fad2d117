/* ring.h - payloads of one communicator, read ahead: disk to pinned memory to the device. What is synthetic, or zero, is made on the
 * device.
 *
 * A loader thread fills places in the order in which payloads were foreseen; ring_take finds the one that an
 * order wants, by the list of its segments. A place's memory is used again once the calls that read it have
 * ended on the device.
 */
#ifndef PRISM_PRISMD_ASSISTANT_RING_H
#define PRISM_PRISMD_ASSISTANT_RING_H

#include "prismd/assistant/gpu.h"
#include "prismd/assistant/order.h"

struct ring;
struct ring_place;

struct ring *ring_create(struct payload_reader *payloads, struct order_counts *counts);
/* The communicator's stream must be idle. NULL is fine. */
void ring_destroy(struct ring *r);
/* Read that order's payload when the time comes. */
void ring_foresee(struct ring *r, const struct order_run *order);
/* The payload of an order that runs now; stream waits for it on the device. Give it back when the calls are
 * queued. */
struct ring_place *ring_take(struct ring *r, const struct order_run *order, CUstream stream);
CUdeviceptr ring_address(const struct ring_place *p);
/* Counts a payload that the ring was not needed for (shelf.h). */
void ring_count_kept(struct ring *r, uint64_t bytes);
void ring_give(struct ring *r, struct ring_place *p, CUstream stream);

#endif
