/* collective_private.h - a collective under way, for collective.c, which combines inputs, and collective_keep.c, which puts
 * what comes of it into the payloads. */
#ifndef PRISMD_CAPTURE_COLLECTIVE_PRIVATE_H
#define PRISMD_CAPTURE_COLLECTIVE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>

#include "coll/reduce.h"
#include "prismd/daemon.h"
#include "trace/payload.h"

struct collective_key {
    int32_t global;
    uint32_t sequence;
};

/* One member's side. A local member's input stays in its region; a remote one's was sent here, or is in its node's sum, which
 * stands with the first of the node's members. */
struct entry {
    bool arrived;
    bool summed; /* `data` is the sum over a node's members, this the first of them; or this is another of them, without data */
    struct group *group; /* local */
    uint32_t part;
    uint8_t *data;      /* remote; owned */
    uint32_t position;  /* remote: names the group at its node */
    uint32_t comm, ordinal; /* as the member numbers them */
    struct msg_part what;
};

struct collective {
    struct collective_key key;
    uint32_t size, arrived;
    uint32_t expected; /* members that run (all, except in a folded capture); at a node that is not the home: its members of a sum */
    const uint32_t *stand_ins; /* by communicator rank, whose input counts for it; NULL = its own. Borrowed */
    uint32_t first; /* communicator rank that came first: what the others are compared with */
    bool summed;    /* home: inputs came as sums of nodes */
    struct entry *entries; /* owned; by communicator rank */
    UT_hash_handle hh;
};

extern struct payload_writer *collective_payloads; /* collective_begin's; of sums, which are made in its rooms */

static inline int world_rank(const struct daemon *d, const struct collective *c, uint32_t member)
{
    return d->graph->comms[c->key.global].ranks[member];
}

static inline const void *input_of(const struct entry *e)
{
    return e->group ? e->group->rank->region + e->what.in_offset : e->data;
}

/* Sums by node: the reduction of what has arrived, members' inputs in pairs and then nodes' sums, one after the other. false: nothing
 * has, or it failed. */
enum collective_sum {
    COLLECTIVE_RESULT,    /* of all; for an average in floating point the result, of integers the sum to be divided */
    COLLECTIVE_OF_VIRTUAL /* of all but sandbox ranks; for an average the plain sum */
};
bool collective_reduce(struct daemon *d, const struct collective *c, enum collective_sum which, void *out);

/* --- collective_keep.c --- */

/* What the leftmost virtual rank brings in a shrunk communicator: the sum of the virtual inputs, in pairs. Kept
 * under the first sandbox member's name. Only reductions need it: all else can be cut out of the outputs. */
int collective_keep_contribution(struct daemon *d, const struct collective *c, const void *const *inputs,
                                 const struct coll_premul *scalars);
/* The same where some inputs came as sums. */
int collective_keep_summed_contribution(struct daemon *d, const struct collective *c);
/* Bytes that all members get are copied to those of this node. Returns the keys (owned by the caller) of the groups that get nothing
 * else: they are marked as kept, and the bytes must be put under these keys, once for all. */
struct payload_key *collective_hand_out(const struct daemon *d, const struct collective *c, const void *shared, uint32_t *nkeys);

#endif
