/* guest.h - the ranks that the mover serves, and what it says to them and to prismd (proto/mover.h).
 *
 * One lock, mover_lock, guards ranks, ranges and queues of the whole process. Sends never block: what a socket does not
 * take is queued, and the thread that reads sockets (main.c) sends it later. So that thread reads always, and neither
 * prismd nor a rank can wait for it while it waits for them.
 */
#ifndef PRISM_MOVER_GUEST_H
#define PRISM_MOVER_GUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>

#include "prismd/mover/units.h"
#include "proto/mover.h"

struct guest;

enum range_place {
    RANGE_MOVING, /* out of the device: not whole yet */
    RANGE_POOL,
    RANGE_WRITING, /* from the pool to the spill file */
    RANGE_DISK,
};

/* What is kept of a rank's range while it is not on the device. */
struct range {
    uint64_t number, bytes;
    enum range_place place;
    bool leaving;          /* on its way in: is not spilled any more */
    bool plain;            /* its memory may have been any other rank's */
    struct extents pinned; /* in the pool */
    struct extents disk;   /* in the spill file */
    uint64_t hash;         /* XXH3 of what lies in the file */
    struct guest *guest;
    UT_hash_handle hh;
};

/* A socket with what it has not taken yet. */
struct outlet {
    int socket; /* non-blocking; -1 = closed */
    struct parcel *queue; /* owned */
    size_t n, cap;
};

struct parcel {
    struct mover_message message;
    int fd; /* a duplicate; -1 = none */
};

struct guest {
    uint32_t rank;
    struct outlet outlet;
    struct range *ranges;  /* uthash by number */
    uint64_t granted;      /* by prismd, as forwarded */
    uint64_t left;         /* serial number of the last eviction */
    uint64_t moved;        /* bytes copied since EVICT or RESTORE */
    uint64_t handed;       /* of these: into memory of ranks that left */
    uint32_t moved_ranges;
    int64_t first_ns, last_ns; /* of these copies: first issued, last done */
    uint32_t jobs;         /* copies queued or under way */
    bool coming;           /* from RESTORE to IN_END */
    bool gone;             /* DETACH came: freed with the last job */
    UT_hash_handle hh;
};

extern pthread_mutex_t mover_lock;
extern struct guest *guests; /* uthash by rank */

/* --- with the lock held --- */

struct guest *guest_add(uint32_t rank, int socket); /* takes the socket */
struct guest *guest_find(uint32_t rank);            /* NULL: none */
/* Forget it: at once, or when its last job has ended. */
void guest_drop(struct guest *g);
/* A job has ended. */
void guest_job_ended(struct guest *g);
struct range *guest_range(struct guest *g, uint64_t number);
struct range *guest_add_range(struct guest *g, uint64_t number, uint64_t bytes);
void guest_drop_range(struct range *r); /* its space too */
uint64_t guest_spilled(const struct guest *g); /* bytes on disk */
/* Send, now or later. A closed socket swallows it. The descriptor (-1 = none) stays the caller's. */
void outlet_send(struct outlet *o, const struct mover_message *m);
void outlet_send_with(struct outlet *o, const struct mover_message *m, int fd);
/* Send what is queued as far as it goes. */
void outlet_flush(struct outlet *o);

/* --- without --- */

extern struct outlet to_prismd;
void mover_begin(int prismd_socket);
/* Wakes the reading thread: something was queued. */
extern int wake_fd;
/* Tell prismd FAILED and end the process. */
_Noreturn void mover_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
