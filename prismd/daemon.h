/* daemon.h - what the files of prismd share: one node's state.
 *
 * Threads: the main thread runs the libevent loop (sockets, child exits, signals); the watch thread (watch.h) sees gates
 * arrive and opens them in time. Everything below is guarded by `lock`; both threads hold it while they work.
 */
#ifndef PRISM_PRISMD_DAEMON_H
#define PRISM_PRISMD_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "graph/graph.h"
#include "prismd/conf.h"
#include "proto/message.h"
#include "proto/region.h"

struct coll_network;
struct event;
struct event_base;
struct daemon;
struct rank;
struct watch;
struct phase;
struct node_board;

/* One COMM node in flight at a local rank: from its message until its gate has been opened. */
struct group {
    struct rank *rank;
    uint32_t comm, ordinal; /* rank's communicator number, count of groups on it */
    uint32_t position;      /* counts the rank's COMM nodes */
    uint32_t node;          /* index among all nodes of the rank */
    uint32_t stream;
    uint32_t slot, generation;
    uint32_t nparts;
    struct msg_part *parts; /* owned */
    uint32_t *sequence;     /* owned, one a part: order among the communicator's collectives, or between the two peers */
    bool early; /* it may arrive before those in front of it */
    bool arrived, opened;
    int64_t arrived_ns;
    int64_t started_ns, end_ns; /* emulation: as computed by the graph */
    int64_t open_at_ns;         /* when the watch thread writes go; -1 = held until the scheduler lets the rank run */
    uint32_t pending;           /* capture: parts not served yet */
    uint32_t staying;           /* capture: of what it sends, so much lies in its region still (capture/channel.h) */
    bool kept;                  /* capture: what it receives goes to the payloads together with others' */
    size_t head;                /* index among the watch thread's heads; SIZE_MAX = none */
    struct group *next_on_stream;
    struct group *next_of_rank, *previous_of_rank;
};

/* A communicator as its member sees it. */
struct membership {
    int32_t global; /* -1 while being made, or NOCOLOR */
    int32_t rank, size;
    uint32_t collectives;     /* issued so far */
    uint32_t splits;          /* called so far */
    uint32_t *sends, *recvs;  /* owned, by peer: issued so far; NULL before the first send or receive */
    uint32_t groups;
    bool used;
};

/* What the rank's host does as far as its messages tell: inside a synchronisation from SYNC_ENTER to the next node, in
 * the making of a communicator until COMM_READY, in the driver while that sets the device up. */
enum host_waits { HOST_RUNS, HOST_IN_SYNC, HOST_IN_INIT, HOST_IN_DRIVER };

enum rank_state { RANK_WAITING, RANK_RUNNING, RANK_BLOCKED, RANK_ENDED };

struct rank {
    struct daemon *daemon;
    uint32_t number; /* world rank */
    uint32_t device; /* index into conf.devices */
    pid_t pid;
    enum rank_state state;
    bool deferred;   /* capture, a launcher a node: not started until a process of this node has become its rank */
    bool hello, bye; /* became its rank; ended in order */
    enum host_waits host_waits;
    int64_t running_since_ns;
    int socket;
    struct event *readable;
    int region_fd; /* until WELCOME has been sent; -1 = none */
    uint8_t *region; /* REGION_SLOTS slots, then the heap */
    size_t region_size;
    uint32_t seat; /* on the board, if there is one */
    struct membership *comms; /* owned, by the rank's communicator number */
    uint32_t ncomms, comms_cap;
    struct group **streams; /* owned; head of the queue of groups of each stream: only it can have arrived */
    struct group **stream_tails;
    uint32_t nstreams;
    struct group *groups;     /* in flight */
    struct group *assembling; /* a large group whose parts are still coming */
    uint32_t nodes, comm_nodes;
    int exit_status; /* of wait(2) */
    uint64_t peak_bytes, live_bytes;
    void *phase_data; /* owned by the phase */
    char *log_path;   /* where its output went; NULL = the program's own */
    struct rank *next_ready; /* scheduler */
    bool queued, listed;
};

/* Processes of a capture that may be no ranks at all. */
struct tasks {
    uint32_t became;       /* became their rank (HELLO) */
    uint32_t well, failed; /* ended before any did, with exit code 0 or another */
    int exit;              /* the highest of those */
};

/* What a phase does with its ranks. All called with the lock held. */
struct phase_ops {
    const char *name;
    int (*comm_init)(struct daemon *d, struct rank *r, const struct msg_comm_init *m);
    int (*comm_split)(struct daemon *d, struct rank *r, const struct msg_comm_split *m);
    void (*comm_free)(struct daemon *d, struct rank *r, const struct msg_comm_free *m); /* may be NULL */
    void (*node)(struct daemon *d, struct rank *r, const struct msg_node *m, struct group *group);
    void (*mark)(struct daemon *d, struct rank *r, const struct msg_mark *m); /* may be NULL */
    void (*arrived)(struct daemon *d, struct group *group); /* the stream stands at the gate */
    void (*opened)(struct daemon *d, struct group *group);  /* go was written; the group is freed afterwards */
    void (*times)(struct daemon *d, struct rank *r, const struct msg_time *times, uint32_t n);
    void (*ended)(struct daemon *d, struct rank *r); /* the process is gone */
    void (*look)(struct daemon *d); /* the watch thread goes round; may be NULL */
};

struct daemon {
    struct conf *conf;
    struct event_base *base;
    pthread_mutex_t lock;
    struct watch *watch;
    char socket_name[64]; /* abstract, without the leading NUL */
    char key[MSG_KEY_LEN + 1];
    int listener;
    struct event *accepting;

    /* the phase that runs */
    enum msg_phase phase;
    enum msg_transport transport;
    const struct phase_ops *ops;
    void *phase_state;
    struct rank **ranks; /* by world rank; NULL = not on this node in this phase */
    struct node_board *board; /* capture with many ranks (board.h); NULL = none */
    uint32_t here;       /* how many those are */
    uint64_t staging;    /* rank_staging of this phase */
    uint32_t live;       /* local ranks not ended */
    bool record_times;
    struct tasks tasks;         /* this node's processes in capture (tasks.h) */
    struct prism_error refusal; /* why this step may not be captured, once it turns out to use NCCL; code 0 = it may */
    uint64_t moves; /* messages of ranks, arrivals, openings */
    bool stopping; /* the phase is being ended: exits of ranks are expected */

    struct store *store;
    struct link *link; /* other nodes; NULL alone */
    struct graph *graph; /* being built (capture) or read (later phases) */
    struct coll_network *network; /* durations of operations in the full job */
    uint32_t trace_nodes;         /* nodes that captured the trace: payload files */
    enum trace_payload trace_payload; /* what these hold (not UNSAID) */
    struct prism_error failure; /* first failure of this phase */
    int program_exit;           /* exit code of the program when it failed, or -1 */
};

/* First failure wins; asks the loop to end the phase. Returns -1. */
int daemon_fail(struct daemon *d, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
