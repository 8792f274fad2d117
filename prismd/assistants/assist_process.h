/* assist_process.h - assistants as processes of this node: start, orders, answers, death. */
#ifndef PRISM_PRISMD_ASSIST_PROCESS_H
#define PRISM_PRISMD_ASSIST_PROCESS_H

#include "common/bytes.h"
#include "prismd/assistant/order.h"
#include "prismd/daemon.h"

struct assistant;

/* A unique id has been made. Lock held, main thread. */
typedef void (*assistant_made)(struct daemon *d, uint32_t communicator, const uint8_t id[ORDER_ID_LEN]);

/* A run with that tag took so long. The same. */
typedef void (*assistant_timed)(struct daemon *d, uint32_t tag, int64_t ns);
/* An ORDER_CREATE or ORDER_DESTROY is done. The same. */
typedef void (*assistant_done)(struct daemon *d);
struct assistant_events {
    assistant_made made;
    assistant_timed timed;
    assistant_done done;
};

/* Start assistant `number` on conf.devices[device]. */
struct assistant *assistant_start(struct daemon *d, uint32_t number, uint32_t device,
                                  const struct assistant_events *events, struct prism_error *err);
/* End it and wait for that; NULL is fine. */
void assistant_end(struct assistant *a);
/* Queue an order (never blocks). Any thread that holds the lock. */
void assistant_order(struct assistant *a, const void *order, size_t size);
/* The word of a gate (order.h), for region_word_set. */
uint32_t *assistant_gate(struct assistant *a, uint32_t gate);
pid_t assistant_pid(const struct assistant *a); /* 0 = gone */
/* The process ended with a wait(2) status: the run fails unless it is ending anyway. */
void assistant_reaped(struct assistant *a, int status);
/* Add what it has counted. */
void assistant_count(const struct assistant *a, struct order_counts *sum);

/* The file that is mapped at an address of a process; malloc'ed, "" if there is none (any more). */
char *assistant_find_library(pid_t pid, uint64_t address);

#endif
