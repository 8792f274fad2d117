/* link.h - the TCP links between the prismds of one run: every node to every other, authenticated.
 *
 * The first node's prismd is the coordinator. docs/formats/daemon-protocol.md describes the bytes. Messages between two
 * nodes keep their order. A lost link is the end of the run (PRISM_EXIT_DAEMON): it names the node.
 */
#ifndef PRISM_PRISMD_LINK_H
#define PRISM_PRISMD_LINK_H

#include "common/bytes.h"
#include "prismd/daemon.h"

enum link_type {
    LINK_JOIN = 1,  /* to the coordinator: a rank wants to be a member of a new communicator (registry.c) */
    LINK_SPLIT,     /* to the coordinator: a member of a communicator called split (registry.c) */
    LINK_MADE,      /* to all: a communicator is complete (registry.c) */
    LINK_NOCOLOR,   /* to all: split without a colour (registry.c) */
    LINK_ARRIVED,   /* to a collective's home: a member's part with its input (capture.c) */
    LINK_RESULT,    /* from the home: a member's output (capture.c) */
    LINK_P2P,       /* to the receiver's node: a send's bytes (capture.c) */
    LINK_START,     /* arrival of a sandbox rank's group, to all (emulate.c) */
    LINK_PHASE,     /* from the coordinator: begin a phase (phases.c) */
    LINK_DONE,      /* to the coordinator: this node's ranks have ended (phases.c) */
    LINK_GRAPH,     /* to the coordinator: nodes and works of this node's ranks (phases.c) */
    LINK_FAIL,      /* to all: end the phase (daemon.c) */
    LINK_PORT,      /* to the coordinator: a rank's connection to the store (store.c) */
    LINK_QUIT,      /* from the coordinator: the run is over, with the exit code (phases.c) */
    LINK_LEFT,      /* to all: a rank of this node has ended (capture.c, emulate.c) */
    LINK_UNIQUE_ID, /* to all: the real NCCL id of a shrunk communicator (assist.c) */
    LINK_ASSIST,    /* to an assistant's node: a sandbox rank makes or frees a shrunk communicator (assist.c) */
    LINK_REACHED,   /* to the coordinator: this node's ranks have done their iterations (enough.c) */
    LINK_ENOUGH,    /* from the coordinator: all have (enough.c) */
    LINK_PMIX,      /* PMIx fences, questions and answers (pmix.c) */
    LINK_SPOKEN,    /* to all followers: this one has told the user why the run ends (link_speaks) */
    LINK_STUCK,     /* to the coordinator: none of this node's ranks can go on, or one can again (hang.c) */
    LINK_NODE_SUM,  /* to an all-reduce's home: what a node's members have put in, as one (collective.c) */
    LINK_NODE_RESULT, /* from the home: the output of all of them (collective.c) */
    LINK_PROGRESS,  /* to the coordinator: how far this node's ranks are (progress.c) */
    LINK_QUIET,     /* to the coordinator: nothing moves among this node's ranks, or does again (folding.c) */
    LINK_BEGIN,     /* from the coordinator: the replay begins without the ranks that wait for others (beginning.c) */
    LINK_STILL,     /* to the coordinator: nothing moves among this node's live ranks, and where they stand, or it does again (stall.c) */
    LINK_TYPES
};

/* May node `from` say this to node `to`? What only the coordinator says, or is told, is malformed elsewhere. */
bool link_allowed(uint32_t type, uint32_t to, uint32_t from);

/* Called with the lock held, in the main thread. */
typedef void (*link_handler)(struct daemon *d, uint32_t from, struct bytes_reader *message);
void link_on(enum link_type type, link_handler handler);

/* Connect all nodes (conf: nodes, node, trace folder). NULL link when alone: *out = NULL. */
int link_create(struct daemon *d, struct link **out, struct prism_error *err);
void link_destroy(struct link *l);

/* Send to one node or to all others; callable with the lock held from any thread. Does nothing for a NULL link. A message to the own
 * node is handled at once (so that code needs no special case). */
void link_send(struct daemon *d, uint32_t node, enum link_type type, const struct bytes *body);
void link_broadcast(struct daemon *d, enum link_type type, const struct bytes *body); /* to the others, not to itself */
/* Both: to all nodes, itself too. */
void link_announce(struct daemon *d, enum link_type type, const struct bytes *body);

/* Give what was sent up to timeout_ms to leave (before exit). */
void link_flush(struct daemon *d, int timeout_ms);
/* Nodes whose link was lost. */
uint32_t link_lost(const struct daemon *d);
bool link_coordinator_lost(const struct daemon *d); /* as a follower sees it */
/* Who tells the user of a failure: the coordinator, or when it is lost the lowest node that is left. */
bool link_speaks(const struct daemon *d);
/* Tell the user why the run ends, once. */
void link_tell(struct daemon *d);

/* Nodes of the run on this machine, this one included, as far as addresses tell. */
uint32_t link_nodes_here(const struct daemon *d);

/* Numeric address of another node. */
const char *link_address(const struct daemon *d, uint32_t node);

#define LINK_NO_NODE UINT32_MAX
/* The node behind a numeric address that connected to this one; LINK_NO_NODE when it is none's, or several nodes' (a test
 * cluster on one machine). */
uint32_t link_node_of_address(const struct daemon *d, const char *address);

/* What to add to this node's clock to get the coordinator's (ns), and how far that may be off (half the best
 * round trip; at the coordinator the largest of all nodes). */
int64_t link_clock_offset_ns(const struct daemon *d, int64_t *error_ns);

#endif
