/* gangs.h - resident.c's own: who talks to whom, and who waits for whom at this moment.
 *
 * A meeting is an operation that some ranks of the device have come to and others have not; it ends when all have. Ranks of other devices are
 * unknown here and do not count.
 * A gang is a set of ranks that have had most of their operations together and that fit on the device together. Every rank is in
 * one, maybe alone. Gangs are learnt: operations of each two ranks are counted, and ranks are joined from the pairs with the most
 * operations down, by powers of two, down to an eighth of the most. What would be too large, or all ranks, is not joined: so a group
 * of all has no gangs, and islands are found below the sums that join them. */
#ifndef PRISM_PRISMD_GANGS_H
#define PRISM_PRISMD_GANGS_H

#include "prismd/switching/victims.h"

struct meeting {
    struct resident_operation operation; /* key */
    uint32_t n, came;
    struct guest **members; /* owned; NULL: has ended */
    bool *has_come;         /* owned */
    bool fits;              /* all members can be on the device together */
    UT_hash_handle hh;
};

void gangs_join(struct resident *s, struct guest *g, const struct resident_operation *op, const int32_t *members, uint32_t n);
/* The guest is about to be freed. */
void gangs_leave(struct resident *s, struct guest *g);
void gangs_destroy(struct resident *s);
/* Makes gangs anew if that is due, and sets what guests' and gangs' fields say of this moment: lack, meeting, awaited, gang_... */
void gangs_look(struct resident *s, int64_t now);
/* Whether a's demand comes before b's. */
bool gangs_before(const struct guest *a, const struct guest *b, int64_t now);
/* b is wanted on the device together with a: it is of a's gang, or of the meeting that lacks a, if that fits. */
bool gangs_is_party(const struct guest *a, const struct guest *b);

#endif
