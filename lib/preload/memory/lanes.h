/* lanes.h - the lanes of park.h and the places where they may come to stand, which park.c and queue.c share.
 *
 * All under one lock, the last one to be taken (preload.h). A stop is told over by `done`: the region's word of a gate
 * (proto/region.h), or a word of ours that the stream writes. Stops that are over are dropped when a lane is looked at.
 */
#ifndef PRISM_PRELOAD_LANES_H
#define PRISM_PRELOAD_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <uthash.h>

#define LANES_WORDS 4096u /* stops of ours that are not over, at most */

enum stop_kind { STOP_GATE, STOP_PARK, STOP_WAIT, STOP_END };

/* A place where a lane may come to stand. */
struct stop {
    enum stop_kind kind;
    uint64_t number; /* counts the lane's stops */
    uint64_t queued, on_legacy; /* operations of the lane, and of the default stream, when it was put on the stream */
    const uint32_t *arrive, *go, *done;
    uint32_t value;
    uint64_t on_lane, on_number; /* WAIT: the event was recorded in that lane, behind that stop */
};

struct lane {
    CUstream stream; /* hash key while living */
    uint64_t serial;
    bool blocking, dead;
    bool fresh; /* first used while parked: there is nothing in front of its park gate */
    bool foreign; /* more than gates and events was put on it since park_begin_row */
    bool looking; /* in a walk along waits, which may go round */
    struct stop *stops; /* not done, in stream order */
    uint32_t n, cap;
    uint64_t last; /* number of the newest stop */
    uint64_t queued; /* operations put on it so far (queue.h) */
    UT_hash_handle hh;
    struct lane *prev, *next;
};

extern struct lane *lanes_all; /* list (utlist) of all that are not drained */
extern bool lanes_parked;      /* from park_begin to park_end */
extern uint64_t lanes_legacy_queued; /* of the default stream's lane */

/* Register the words with CUDA; context current. */
void lanes_init(void);
void lanes_lock(void);
void lanes_unlock(void);

/* NULL: none. By stream only while that exists. */
struct lane *lanes_find(CUstream stream);
struct lane *lanes_find_serial(uint64_t serial);
/* NULL: no stream at all. */
struct lane *lanes_add(CUstream stream);
/* Its stream goes away; it stays in the list until it is drained. */
void lanes_end(struct lane *l);
uint32_t lanes_count(void);

void lanes_prune(struct lane *l);
/* Also frees dead lanes that are drained. */
void lanes_prune_all(void);

/* A stop next on the stream; the caller fills in its words. The pointer holds until the next call. */
struct stop *lanes_append(struct lane *l, enum stop_kind kind);
/* With words and a value of ours. NULL when no words are free: very many waits lie in front of the device. */
struct stop *lanes_append_ours(struct lane *l, enum stop_kind kind);
/* Put a write of a word of ours on the stream, and a wait until it is reached. */
void lanes_write(CUstream stream, const uint32_t *word, uint32_t value);
void lanes_wait(CUstream stream, const uint32_t *word, uint32_t value);

/* The first stop of the lane (NULL: no) is a park gate, or a wait for a lane that has one first. */
bool lanes_at_park(struct lane *l);

#endif
