/* communicator.h - a real communicator in which this process stands for virtual ranks.
 *
 * Each has a thread of its own that does its orders one after the other: NCCL blocks the host while peers
 * connect, and that of one communicator must not hold up another.
 */
#ifndef PRISM_PRISMD_ASSISTANT_COMMUNICATOR_H
#define PRISM_PRISMD_ASSISTANT_COMMUNICATOR_H

#include "prismd/assistant/order.h"

/* For all communicators; both borrowed for the life of the process. */
void communicator_init(struct payload_reader *payloads, struct order_shared *shared);
/* Hand an order to its communicator, which ORDER_CREATE makes. order is taken over (free). */
void communicator_order(struct order_header *order);

#endif
