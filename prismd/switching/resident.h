/* resident.h - which ranks' memory is on a device in capture: the ledger and the policy of one device.
 *
 * Knows neither processes nor sockets nor clocks: prismd/switching/movers.c gives it events with the time and carries out what it
 * decides, and tests play both. Called with the daemon's lock held.
 *
 * Ledger. A started rank's context stays on the device always; what it was granted counts while it is in, leaving or coming.
 *     held     = contexts + granted(in, leaving, coming)      a GRANT or a start needs held + bytes <= capacity
 *     promised = held - granted(leaving)                      a RESTORE needs promised + bytes <= capacity: the one that
 *                                                             comes in takes memory as the other gives it up
 *
 * Demands are served two at a time at most: first memory for ranks that are in and asked (WANT) and starts, in the order in which they
 * were made, then the way back for those that have gates to open, asked for memory or say that their host cannot go on (WANT flag 2). So
 * ranks that grow go on to their gates with what they have, and are not moved for a little of what others lack:
 * a rank that waits for memory is a victim only of one in memory that asked before it (it keeps its turn from one gate to the
 * next, on the device and off it), and room that is free while ranks grow is left to them.
 *
 * Groups. Ranks that talk belong on the device together. The policy is told which operation a rank comes to and who its members are
 * (resident_joined), and knows from that who waits for whom now, and who has most operations together: a gang (gangs.h). One rule: nobody
 * leaves who will go on without a move, and gangs come and leave as a whole.
 *   Ways back: the gang first that those in memory wait for and that lacks the fewest ranks, else the one whose demand is the oldest.
 *   Victims: ranks that wait, straight or by way of others, for one that is out and is not served before: first of a gang that has begun to
 *   leave, then of gangs that wait as a whole; of one of which others go on only after RESIDENT_LINGER_NS.
 *   Ranks that the demand's rank wants to meet, and those that will go on, leave only when nobody in memory goes on; or for a demand of
 *   RESIDENT_PATIENCE_NS.
 *
 * What a demand lacks is taken from victims: ranks without a gate to open whose streams stand at gates, or that wait for
 * memory themselves, or that have been silent for RESIDENT_QUIET_NS (blocked in the store, a file, a long kernel; RESIDENT_SETTLE_NS if one
 * in memory waits for them). A rank that came back is left alone until it stands or waits again, RESIDENT_SETTLE_NS at most.
 *
 * Nobody starves: a way back that is RESIDENT_PATIENCE_NS old comes before all younger ones, in the order of asking, and once in
 * RESIDENT_PATIENCE_NS such a demand takes any rank that stands or is silent. So it is served after that time for itself and for each that
 * asked before it, and the time of the moves. A rank that is out for so long without a demand, and does not stand at gates, gets one.
 *
 * No deadlock: (1) the first demand can be met when all others are out, since none is larger than resident_most(), and
 * what is larger is refused, and ranks that wait for memory, which make no room for a way back, are served before it; (2) while anybody in
 * memory goes on there is progress, and patience ends; when nobody does, every rank in memory is a victim: its ready gates have been
 * opened, and then it stands, waits for memory or is silent, all of which is seen after finite time, whomever it waits for; (3) a
 * rank that is out without a demand of its own (work behind its park gates that others wait for, seen by nobody) comes in
 * when there is no demand and the device has been silent, in turn, with growing intervals, so that waiting for another
 * device is not spent on copying. So every rank is in again and again as long as nothing moves, and what can move does.
 */
#ifndef PRISM_PRISMD_RESIDENT_H
#define PRISM_PRISMD_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/mover.h"

#define RESIDENT_STILL_NS  10000000LL   /* streams at gates, and so long no word from the host: a victim */
#define RESIDENT_QUIET_NS  200000000LL  /* no word at all, and no gate: a victim, too */
#define RESIDENT_SETTLE_NS 1000000000LL
#define RESIDENT_GROW_NS   200000000LL  /* so long after a rank asked for memory others are taken to need more, too */
#define RESIDENT_LINGER_NS 1000000000LL /* so long a rank waits for one that is out until it leaves though its gang goes on */
#define RESIDENT_PATIENCE_NS 30000000000LL /* a demand as old comes first, and takes from those that go on */
#define RESIDENT_IDLE_NS   200000000LL  /* first interval of (3) */
#define RESIDENT_PARK_NS   5000000000LL /* a rank that has not parked by then is taken back (CANCEL) */
#define RESIDENT_TURN_NS   10000000000LL /* longest interval of (3) */

struct resident;

/* What is known of a rank at this moment. */
struct resident_look {
    bool standing; /* it has operations under way, and every stream with one stands at its gate */
    bool blocked;  /* its host waits */
    int64_t active_ns; /* last sign of life */
};

/* An operation of capture. from, to: of a message, communicator ranks plus one; else 0. */
struct resident_operation {
    int32_t comm;
    uint32_t sequence;
    int32_t from, to;
};

/* What the policy has done; none may call back into it. */
struct resident_calls {
    void (*send)(void *arg, uint32_t rank, uint32_t type, uint64_t bytes, uint32_t flag); /* GRANT EVICT CANCEL RESTORE */
    void (*start)(void *arg, uint32_t rank); /* the process may be started */
    /* A rank that is out can never come in again, because of ranks that turned out not to be movable. */
    void (*hopeless)(void *arg, uint32_t rank, uint64_t bytes);
    struct resident_look (*look)(void *arg, uint32_t rank);
};

struct resident_setting {
    uint64_t capacity; /* bytes that the ranks' memory and contexts may take */
    uint64_t context;  /* bytes of device memory that a process takes for itself */
    uint32_t ranks;    /* that will be started on the device */
    uint64_t seed;     /* not 0: victims are picked at random, by this */
};

struct resident_counts {
    uint64_t evictions, restorations, bytes_out, bytes_in, bytes_handed, host_bytes, host_now, spilled_bytes, ranks_evicted, refused;
    double seconds_out, seconds_in, seconds_parking, seconds_waiting, seconds_pinning;
};

/* Where the ranks that have not ended are at this moment; asking: for memory, or for the way back. Bytes. */
struct resident_state {
    uint32_t ranks, to_start, in, leaving, out, coming, asking;
    uint64_t held, capacity;
};

struct resident *resident_create(const struct resident_setting *s, const struct resident_calls *calls, void *arg);
void resident_destroy(struct resident *s); /* NULL is fine */

/* Events. A rank is known from its want_start on; of others events are ignored. */
void resident_want_start(struct resident *s, uint32_t rank, int64_t now);
void resident_message(struct resident *s, const struct mover_message *m, int64_t now); /* of the mover */
/* The rank has come to an operation of these world ranks; those that are not of the device do not count. Before its gate is ready. */
void resident_joined(struct resident *s, uint32_t rank, struct resident_operation op, const int32_t *members, uint32_t n, int64_t now);
void resident_gate_ready(struct resident *s, uint32_t rank, int64_t now);
void resident_gate_opened(struct resident *s, uint32_t rank, int64_t now);
void resident_ended(struct resident *s, uint32_t rank, int64_t now);
/* Something may have changed that makes a victim of a rank; also to be called every few milliseconds. */
void resident_tick(struct resident *s, int64_t now);

/* Gates of the rank may be opened now. */
bool resident_is_in(const struct resident *s, uint32_t rank);
/* Bytes that one rank may be granted at most. */
uint64_t resident_most(const struct resident *s, uint32_t rank);
uint64_t resident_capacity(const struct resident *s);
const struct resident_counts *resident_count(const struct resident *s);
struct resident_state resident_look_at(const struct resident *s);

#endif
