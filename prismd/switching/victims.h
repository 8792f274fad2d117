/* victims.h - resident.c's own: the ledger's entries, and who leaves the device for another. */
#ifndef PRISM_PRISMD_VICTIMS_H
#define PRISM_PRISMD_VICTIMS_H

#include <uthash.h>

#include "prismd/switching/busy.h"
#include "prismd/switching/resident.h"

enum place { WAITS_START, IN, LEAVING, OUT, COMING };

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
    int64_t opened_ns, restored_ns, evict_ns, out_ns, cancelled_ns;
    bool settled, parked, cancelling, unmovable, ending, was_evicted;
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
};

/* The best victim that is not chosen yet, for `who` (NULL: for nobody's demand); NULL: there is none. */
struct guest *victims_choose(struct resident *s, const struct guest *who, struct guest *const *chosen, uint32_t n, int64_t now);

#endif
