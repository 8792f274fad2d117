/* message.h - what the preload library in a rank's process and its node's prismd say to each other.
 *
 * Transport: an abstract AF_UNIX SOCK_SEQPACKET socket, name in $PRISM_SOCKET; one datagram is one message or
 * several, one behind the other (each but the last of a size that 8 divides): a struct msg_header, then the fixed
 * structure of the type, then its variable part. Both ends are the same build on the
 * same machine (MSG_VERSION is checked in HELLO), so structures travel as they lie in memory. prismd checks
 * SO_PEERCRED (same user) and the key of $PRISM_KEY. docs/formats/rank-protocol.md describes the bytes.
 *
 * A process becomes its rank at its first CUDA or NCCL use: it connects, sends HELLO and gets WELCOME with the region's
 * file descriptor (SCM_RIGHTS). A second process with the same rank gets REFUSED and stays inert.
 *
 * The preload library sends every node of the rank's timelines in issue order (one lock around all of it), each with an
 * index that counts from 0. prismd never has to answer them; the calls that need an answer are COMM_INIT and
 * COMM_SPLIT (COMM_READY) only.
 */
#ifndef PRISM_PROTO_MESSAGE_H
#define PRISM_PROTO_MESSAGE_H

#include <stdint.h>

#define MSG_VERSION 6u
#define MSG_MAX     (192u * 1024u) /* largest datagram; a group of more parts is sent as NODE + PARTS messages */
#define MSG_KEY_LEN 32             /* hexadecimal digits of PRISM_KEY */
#define MSG_UID_LEN 128            /* ncclUniqueId */

enum msg_type {
    /* rank -> prismd */
    MSG_HELLO = 1,
    MSG_COMM_INIT,
    MSG_COMM_SPLIT,
    MSG_COMM_FREE,
    MSG_NODE,       /* struct msg_node + parts */
    MSG_SYNC_ENTER, /* host is about to block (scheduler hint): struct msg_sync_enter */
    MSG_TIMES,      /* struct msg_times + struct msg_time[] */
    MSG_MEMORY,     /* struct msg_memory: at exit and whenever the peak grew, at most once a second */
    MSG_STORE_PORT, /* local port of a connection to MASTER_ADDR:MASTER_PORT (who wrote what to the store) */
    MSG_FATAL,      /* text: the preload library refuses to go on; prismd ends the run with struct msg_fatal.code */
    MSG_BYE,        /* orderly end of the process (atexit) */
    MSG_SET_UP,     /* struct msg_set_up: the first CUDA call sets the device up, which the driver does for one process after another */
    MSG_MARK,       /* struct msg_mark: in capture, an NVTX range of the program */
    /* prismd -> rank */
    MSG_WELCOME = 64, /* with the region's descriptor */
    MSG_REFUSED,
    MSG_COMM_READY,
};

struct msg_header {
    uint32_t type;
    uint32_t size; /* of the message */
};

enum msg_phase { PHASE_CAPTURE = 1, PHASE_CALIBRATE, PHASE_EMULATE };
enum msg_transport { TRANSPORT_PACED = 1, TRANSPORT_NCCL };

struct msg_hello {
    struct msg_header h;
    uint32_t version;
    uint32_t rank;
    int32_t pid;
    uint32_t unused;
    char key[MSG_KEY_LEN];
};

struct msg_welcome {
    struct msg_header h;
    uint32_t phase, transport;
    uint32_t world, rank;
    uint32_t record_times; /* 1: put timing events around nodes and send MSG_TIMES */
    uint32_t seats;        /* of the node's board, whose descriptor is then the last one; 0: none (board.h) */
    uint32_t max_waiting;  /* streams with groups not ended yet that the preload library lets through at most */
    uint32_t seat;         /* of this rank on the board */
    uint64_t region_size;
    uint64_t staging;      /* bytes of its heap that groups in flight take before later ones wait for them */
    uint32_t control;      /* 1, not in capture: results that control mode does not keep (coll/synthetic.h) are not delivered: the preload
                              library fills them on the device */
    uint32_t unused;
};

/* Communicators. `comm` is the rank's own number: 0, 1, 2 … in order of creation (it names the communicator across
 * phases). unique_id is a token made by us (or by real NCCL in a child that is not ours). */
struct msg_comm_init {
    struct msg_header h;
    uint32_t comm;
    int32_t size, rank;
    uint32_t unused;
    uint8_t unique_id[MSG_UID_LEN];
    uint64_t nccl; /* transport nccl: where the real NCCL that the rank will call lies in its memory (several may); else 0 */
};

struct msg_comm_split {
    struct msg_header h;
    uint32_t comm;   /* number the new communicator gets (also used up when color is NCCL_SPLIT_NOCOLOR) */
    uint32_t parent; /* number of the parent */
    int32_t color, key;
    uint64_t nccl; /* as in msg_comm_init */
};

struct msg_comm_free {
    struct msg_header h;
    uint32_t comm;
    uint32_t unused;
};

/* Answer to COMM_INIT and COMM_SPLIT. In capture COMM_INIT is answered at once, COMM_SPLIT when every member of the
 * parent has called. In the nccl transport a communicator with more than one real participant is created for real:
 * real_size > 0, and unique_id is real NCCL's: the preload library calls the real ncclCommInitRank(real_size, unique_id,
 * real_rank) before it returns to the program. sandbox[] lists the communicator ranks that are sandbox ranks, in order
 * (their order is their real rank; assistants follow them). */
struct msg_comm_ready {
    struct msg_header h;
    uint32_t comm;
    int32_t size, rank; /* in the full communicator; size 0: NOCOLOR; size -1: error, text follows instead */
    int32_t real_size, real_rank;
    uint32_t assistants;
    uint32_t nsandbox;
    uint32_t ballast_kib; /* device memory to allocate for as long as the communicator lives (coll/ballast.h) … */
    uint32_t ballast_nccl; /* … if NCCL is of this version (ncclGetVersion) */
    uint8_t unique_id[MSG_UID_LEN];
    /* int32_t sandbox[nsandbox] */
};

/* A node of the rank's timelines; kinds and meaning in graph/graph.h (enum graph_kind). */
struct msg_node {
    struct msg_header h;
    uint32_t index;   /* counts all nodes of the rank */
    uint8_t kind;     /* enum graph_kind */
    uint8_t early;    /* GRAPH_COMM in capture: it arrives by itself, before the gates in front of it open */
    uint16_t host;    /* host thread: 0, 1, 2 … by first use */
    uint32_t stream;  /* stream: 0, 1, 2 … by first use */
    uint32_t dep;     /* index of the node depended on + 1; 0 = none */
    uint32_t comm;    /* GRAPH_COMM: communicator number */
    uint32_t ordinal; /* GRAPH_COMM: counts the groups of this communicator */
    uint32_t slot, generation;
    uint32_t nparts, first_part; /* parts in this datagram and number of the first (large groups come in several) */
    uint32_t total_parts;
    uint32_t unused1;
    int64_t enter_ns, leave_ns; /* CLOCK_MONOTONIC when the program's call began, and when the previous one of this host
                                   thread returned to the program: host work = enter_ns - leave_ns of the node before;
                                   GRAPH_JOIN: when the real call that waited was over, and when it began */
    /* struct msg_part[nparts] */
};

/* One operation of a group. Offsets are within the region, multiples of the datatype's size. Bytes 0 = none. */
struct msg_part {
    uint8_t op;       /* enum prism_op (coll/types.h) */
    uint8_t datatype; /* ncclDataType_t */
    uint8_t redop;    /* ncclRedOp_t of the base operation; PreMulSum as COLL_REDOP_PREMUL with scalar below */
    uint8_t synthetic; /* 1: the rank fills the result itself, out_bytes is 0 (msg_welcome.control) */
    int32_t peer;   /* send: destination, recv: source, rooted ops: root; else -1 */
    uint64_t count; /* as in the NCCL call */
    uint64_t in_offset, in_bytes;
    uint64_t out_offset, out_bytes;
    uint64_t scalar; /* PreMulSum factor, bits of the datatype */
};

struct msg_sync_enter {
    struct msg_header h;
    int64_t ns;
};

struct msg_set_up {
    struct msg_header h;
    uint32_t done; /* 0: begins; 1: the context is there and the region registered */
    uint32_t wakes; /* with done: the device wakes who sleeps on a word that it writes: a software GPU */
};

/* An NVTX range begins or ends in a host thread that issues nodes (graph/marks.h says what becomes of it). */
enum mark_kind {
    MARK_PUSH = 1,
    MARK_POP,
    MARK_DROP, /* instead of a push: ranges of this name are no iterations, and nothing more is said of them */
};

struct msg_mark {
    struct msg_header h;
    uint64_t name;     /* a hash, the same in all processes; not 0 */
    uint32_t position; /* nodes of the rank in front of it, all of which have been sent */
    uint32_t kind;     /* enum mark_kind */
};

/* Device times of a node, CLOCK_MONOTONIC nanoseconds: pre = the stream got there, post = the node had ended. */
struct msg_time {
    uint32_t index;
    uint32_t alone; /* 1: the program has put nothing on the stream since its node before; 0: it has, or that is not known */
    int64_t pre_ns, post_ns;
};

struct msg_times {
    struct msg_header h;
    uint32_t count, unused;
    /* struct msg_time[count] */
};

struct msg_memory {
    struct msg_header h;
    uint64_t live_bytes, peak_bytes; /* the program's own device allocations, bytes as asked for */
};

struct msg_store_port {
    struct msg_header h;
    uint32_t port, unused;
};

struct msg_fatal {
    struct msg_header h;
    uint32_t code; /* enum prism_exit */
    uint32_t unused;
    /* text, not NUL-terminated */
};

#endif
