/* pmix_private.h - what pmix.c and pmix_values.c share: one phase's state on this node, and messages between nodes. */
#ifndef PRISM_PRISMD_PMIX_PRIVATE_H
#define PRISM_PRISMD_PMIX_PRIVATE_H

#include "common/bytes.h"
#include "prismd/daemon.h"
#include "prismd/pmix/pmix_fence.h"
#include "prismd/pmix/pmix_log.h"
#include "prismd/pmix/pmix_node.h"

struct pmix_door;

/* LINK_PMIX: u32 serial of the phase, u32 of these, then */
enum pmix_message {
    SAY_NAME,   /* string (serial: the new one) */
    SAY_FENCE,  /* u32 server, u64 token, u32 n, n ranks, rest: data */
    SAY_ASK,    /* u32 asking server, u64 token, u32 rank */
    SAY_TOLD,   /* u32 asking server, u64 token, u32 result, rest: what the rank put */
    SAY_PUT,    /* to the coordinator: u32 rank, u32 fence, string version, rest: what the rank put */
    SAY_ENDED,  /* u32 rank, u32 enum end (pmix.c) */
};

enum pmix_joined { PMIX_NEVER, PMIX_CONNECTED, PMIX_FINALIZED, PMIX_ABORTED };

struct pmix_state {
    char name[64]; /* of the namespace */
    uint32_t serial, begun; /* phases named, begun */
    bool active;
    struct pmix_world world;
    struct pmix_fences fences;
    uint32_t *home;           /* owned; by server: physical node */
    uint32_t *passed;         /* owned; by rank: fences entered */
    uint8_t *joined;          /* owned; by rank of this node: enum pmix_joined */
    struct pmix_node **nodes; /* owned; by server, NULL = not here */
    struct pmix_door *door;
    struct pmix_log *log;     /* capture: what the coordinator has been told; later: the trace's */
    char version[16];         /* of libpmix, once a server runs */
    bool warned;              /* of a value that is not in the trace */
};


extern struct pmix_state px;

void pmix_say(struct bytes *b, enum pmix_message what); /* begin a message */
void pmix_put_rest(struct bytes *b, const struct bytes_reader *r);
struct pmix_node *pmix_server_of(uint32_t rank); /* this node's server of a rank, or NULL */
uint32_t pmix_logical_node(const struct daemon *d, uint32_t server);

/* --- what ranks put (pmix_values.c) --- */

/* In capture: tell the coordinator. fence: as pmix_log.h has it. */
void pmix_record(struct daemon *d, uint32_t rank, uint32_t fence, const void *data, size_t len);
/* Messages between nodes. */
void pmix_on_put(struct bytes_reader *r);
void pmix_on_ask(struct daemon *d, uint32_t from, struct bytes_reader *r);
void pmix_on_told(struct bytes_reader *r);
/* Messages of this node's servers. */
void pmix_on_server_get(struct daemon *d, uint32_t server, struct bytes_reader *r);
void pmix_on_server_told(struct daemon *d, struct bytes_reader *r);
/* A rank of this node has ended: nobody will answer for it. */
void pmix_drop_asks_of(struct daemon *d, uint32_t rank);
void pmix_values_end(void);

#endif
