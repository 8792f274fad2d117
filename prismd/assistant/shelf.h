/* shelf.h - payloads of one communicator that stay on the assistant's device.
 *
 * Emulation goes through the recorded iterations again and again, and each time the same orders want the same payloads:
 * gigabytes an iteration where gradients of large models are summed, which no disk reads and no bus carries in the iteration's
 * time. So what was brought to the device once stays there, as long as there is room: PRISM_ASSISTANT_MEMORY bytes for all
 * communicators of an assistant, by itself half of what is free on its device when it starts.
 *
 * Everything happens in the order of the communicator's stream, so nobody waits for a payload on the shelf. Payloads that
 * an order's calls write to are not kept.
 */
#ifndef PRISM_PRISMD_ASSISTANT_SHELF_H
#define PRISM_PRISMD_ASSISTANT_SHELF_H

#include "prismd/assistant/gpu.h"
#include "prismd/assistant/order.h"

struct shelf;

/* Once, before the first shelf: how much room there is. */
void shelf_init(void);

struct shelf *shelf_create(void);
/* The communicator's stream must be idle. NULL is fine. */
void shelf_destroy(struct shelf *s);
/* Where the order's payload lies; 0: it is not kept. */
CUdeviceptr shelf_find(const struct shelf *s, const struct order_run *order);
/* Keep the order's payload, which lies at `from` for what is put on the stream next, if there is room. */
void shelf_put(struct shelf *s, const struct order_run *order, CUdeviceptr from, CUstream stream);

#endif
