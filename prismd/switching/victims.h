/* victims.h - resident.c's own: the ledger's entries, and who leaves the device for another. */
#ifndef PRISM_PRISMD_VICTIMS_H
#define PRISM_PRISMD_VICTIMS_H

#include <uthash.h>

#include "prismd/switching/busy.h"
#include "prismd/switching/resident.h"

enum place { WAITS_START, IN, LEAVING, OUT, COMING };

struct meeting;

struct guest {
    uint32_t rank;
    enum place place;
    uint64_t granted;
    uint64_t want, least;   /* asked for, not answered; what will do of it */
    uint32_t want_flag;
    bool wants, needs;      /* WANT 0 or 1 unanswered; WANT 2 since it left */
    uint32_t ready;         /* gates that may be opened once it is in */
    uint64_t asked;         /* number of its demand; 0 = it has none */
    uint64_t turn;          /* that number, kept from its first demand since a gate opened until it has come to the next */
    int64_t asked_ns;
    int64_t opened_ns, joined_ns, restored_ns, evict_ns, out_ns, cancelled_ns;
    bool seen; /* its demand, while demands are served */
    bool settled, parked, cancelling, unmovable, ending, was_evicted;
    /* gangs.c */
    bool seated, awaited;      /* has a number; is awaited at a meeting by one that is in */
    uint32_t number, waits;    /* its row in `together`; meetings that it has come to */
    struct guest *gang, *above; /* one guest stands for its gang; while gangs are made */
    uint64_t sum;
    uint32_t size;
    uint32_t lack;             /* out: so many have to come in for those that wait for it; UINT32_MAX: nobody does */
    struct meeting *meeting;   /* which they wait at, if all of it fits on the device */
    uint32_t gang_lack;        /* of who stands for a gang: least of `lack` and `asked` of its demands; a member is out */
    uint64_t gang_asked;
    bool gang_out;
    /* victims.c, for the demand that is served */
    int idle;
    bool away, stuck, taken, gang_goes; /* gang_goes: of who stands for a gang: a member goes on */
    UT_hash_handle hh;
};

struct resident {
    struct resident_setting set;
    struct resident_calls calls;
    void *arg;
    struct guest *guests;
    uint32_t started, to_come; /* processes that live; that have not been started */
    uint64_t least_capacity;
    uint64_t serial, random;
    int64_t active_ns, turn_ns; /* (3): last progress, and the interval */
    int64_t grown_ns;           /* a rank that is in asked for memory */
    struct resident_counts counts;
    struct busy out, back; /* moves of each direction */
    struct meeting *meetings;
    uint16_t *together; /* owned; operations of each two ranks, places x places, by their numbers */
    uint32_t places, seats;
    bool gangs_old; /* counts have changed since gangs_ns */
    int64_t gangs_ns, forced_ns;
    /* victims.c, for the demand that is served: some rank goes on, or is on its way; who goes on may have to leave; has to */
    bool anyone_goes, may_force, forces;
};

/* Think about who can leave for `who` (NULL: for nobody's demand); then the best of them that is not chosen yet, NULL: there is none. */
void victims_begin(struct resident *s, const struct guest *who, int64_t now);
struct guest *victims_choose(struct resident *s, const struct guest *who, int64_t now);

#endif
