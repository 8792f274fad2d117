/* measure_world.h - the processes of a measurement: who they are, where they sit, a store to talk through. */
#ifndef PRISM_CLI_MEASURE_WORLD_H
#define PRISM_CLI_MEASURE_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct c10d_client;
struct c10d_server_thread;

struct measure_world {
    int rank, size, local_rank;
    int nodes;
    int *node_of; /* owned; node number of each rank, numbered by first rank */
    struct c10d_client *store;
    struct c10d_server_thread *server; /* rank 0, unless the launcher serves the store */
    unsigned serial;                   /* of barriers and exchanges; the same in all processes */
};

/* True when a launcher's variables say which rank this process is. */
bool measure_world_launched(void);
/* From the environment: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; else Slurm's. */
int measure_world_join(struct measure_world *w, struct prism_error *err);
/* A last barrier (so that the store outlives its clients), then everything is freed. */
void measure_world_leave(struct measure_world *w);

/* All processes meet. */
int measure_world_barrier(struct measure_world *w, struct prism_error *err);
/* name is made unique by the caller. get waits for the value, which must have exactly len bytes. */
int measure_world_put(struct measure_world *w, const char *name, const void *value, size_t len,
                      struct prism_error *err);
int measure_world_get(struct measure_world *w, const char *name, void *value, size_t len, struct prism_error *err);

/* Run this executable again with the same arguments as processes 0…size-1 of this machine, each on one device; returns
 * when all have ended. -1 when one failed (the others are then ended). */
int measure_world_spawn(int size, struct prism_error *err);

#endif
