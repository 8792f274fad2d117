/* preload.h - the rank that this process is: its session with prismd, and the frame around every interposed call.
 *
 * States (session.state), only ever forward except IDLE -> CONNECTED -> READY:
 *
 *   OFF        not a rank: PRISM_SOCKET unset, setuid, refused by prismd, or a forked child. Everything passes through.
 *   IDLE       could become the rank; nothing has been done yet.
 *   CONNECTED  HELLO and WELCOME exchanged, region mapped (first connect() to the c10d store, or on the way to READY).
 *   READY      CUDA set up: region registered, timing base taken.
 *
 * Locks, outermost first: session_lock (one for the order of nodes: everything that issues work on streams or sends a
 * NODE holds it), then residence.h's, then times.c's and lanes.h's. Real calls that may block are made without any of them.
 */
#ifndef PRISM_PRELOAD_PRELOAD_H
#define PRISM_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "common/error.h"
#include "proto/message.h"

#define PRISM_EXPORT __attribute__((visibility("default")))
#define PRISM_THREAD __thread __attribute__((tls_model("initial-exec")))

enum session_state { SESSION_UNKNOWN, SESSION_OFF, SESSION_IDLE, SESSION_CONNECTED, SESSION_READY };

struct board;

struct session {
    int state; /* enum session_state, atomic */
    uint32_t rank, world;
    uint32_t phase, transport; /* enum msg_phase, msg_transport */
    bool record_times;
    bool only_gates; /* emulation: nobody asks for nodes but COMM, so what they would cost the program's host is saved */
    bool moves;      /* atomic; only_gates: there would have been a node since prismd was told last that the host goes on (times.c) */
    bool control; /* large floating-point results are made here (msg_welcome.control) */
    uint32_t max_waiting;
    uint8_t *region; /* shared with prismd; mapped until the process ends; accessible as far as it is registered */
    size_t region_size;
    CUdeviceptr region_device; /* the device's address of region */
    CUcontext context;         /* the device's primary context, or the one that was current, and could be used, at the first use */
    bool context_is_own;       /* it was current: the program's */
    int64_t context_ns;        /* what making the context took */
    int mover;                 /* socket of the device's mover, -1 = none (switch.h) */
    struct board *board;       /* shared with the node's ranks and prismd (proto/board.h); NULL = none */
    uint32_t seats, seat;
    CUdeviceptr board_device;  /* the device's address of board */
};
extern struct session session;

/* True in processes that are no rank and will not become one: call the real function and nothing else. */
bool session_is_off(void);
/* Connect to prismd if that has not happened; no CUDA call is made. False: this process is no rank. */
bool session_connect(void);
/* First CUDA or NCCL use: connect and set CUDA up. False: this process is no rank. Ends the process on failure. */
bool session_use(void);
/* After session_use: the calling thread gets the rank's context if it has none that can be used, as a call of the CUDA runtime or
 * of NCCL may be a thread's first. */
void session_enter_context(void);
/* CUDA must know the region's pages before a stream uses them. Registering pins memory, so it is done in chunks, as far
 * as the staging heap has been used; a copy may not cross the border of two (SESSION_CHUNK). What is registered stays so: giving
 * it back waits for the whole device, at closed gates for ever. Behind it the region has no access, so that a program's
 * mlockall does not fill it. session_lock held. */
#define SESSION_CHUNK ((size_t)32 << 20)
void session_register(size_t end);
/* A child after fork: drop the connection, pass everything through. */
void session_forget(void);

void session_lock(void);
bool session_trylock(void);
void session_unlock(void);

/* Tell prismd why this rank cannot go on; it ends the run. Ends the process after a short wait. */
_Noreturn void session_fatal(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A CUDA call of our own failed: the same with the call's name and error. */
_Noreturn void session_cuda_failed(const char *call, int error);
#define CUDA_MUST(call)                                \
    do {                                               \
        int cuda_must_ = (int)(call);                  \
        if (cuda_must_)                                \
            session_cuda_failed(#call, cuda_must_);    \
    } while (0)

/* --- the frame of an interposed call --- */

/* Per host thread. */
struct frame {
    int depth;         /* > 0 inside one of our wrappers: calls made from there pass through */
    int host;          /* host thread number + 1; 0 = none yet */
    bool noded;        /* the current call has sent nodes */
    int64_t enter_ns;  /* the program's call began (CLOCK_MONOTONIC) */
    int64_t left_ns;   /* the last call that sent nodes returned to the program, less the time of real calls in it */
    int64_t real_ns;   /* calibration: calls of NCCL in this call, or the gates that stand for them, which the host of the full job makes too: they are
                          its work, but what they waited for room in the stream's queue (nodes/blocked.h) */
};
extern PRISM_THREAD struct frame frame;

/* Begin an interposed call. False: pass through (no rank, or a call of a library below us). To be used in the exported
 * function itself, whose return address tells who calls. */
#define frame_enter() frame_enter_from(__builtin_return_address(0))
bool frame_enter_from(const void *caller);
void frame_leave(void);
/* Number of the calling host thread: 0, 1, 2 ... by first use; session_lock held. */
uint32_t frame_host(void);

/* --- nodes; session_lock held --- */

/* Send a node other than COMM; returns its index. dep: index of the node depended on + 1, 0 = none. */
uint32_t node_send(int kind, uint32_t stream, uint32_t dep);
/* The same with times of its own. */
uint32_t node_send_at(int kind, uint32_t stream, uint32_t dep, int64_t enter_ns, int64_t leave_ns);
/* How many nodes have been sent, and how many of these are COMM nodes; no lock needed. */
uint32_t node_position(uint32_t *ncomms);
/* Send a COMM node; fills header, index, host and times of node. parts may be longer than one datagram. */
uint32_t node_send_comm(struct msg_node *node, const struct msg_part *parts, uint32_t nparts);

#endif
