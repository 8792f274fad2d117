/* mover.h - context switching in capture: what prismd, the mover of a device and the ranks on that device say.
 *
 *     prismd  <-- socketpair, one a mover -->  mover (one process a device)  <-- socketpair, one a rank -->  rank
 *
 * prismd decides who is resident (prismd/switching/resident.h). The rank's switch thread parks its streams and owns its device
 * memory (preload/memory/vmm.h); a range of it is a CUDA physical allocation (cuMemCreate) of its own, exported as a file
 * descriptor. The mover imports it, copies between it and its pinned pool (or the spill file), and knows nothing of
 * programs. So one process pins host memory, once, and the copies of one rank overlap with another rank's.
 *
 * Transport: SOCK_SEQPACKET socketpairs made by prismd; one datagram is one message: struct mover_message, a descriptor
 * beside it where the table says so (SCM_RIGHTS), text behind it for FAILED. All ends are one build. The rank's end comes
 * with WELCOME (second descriptor; none = no switching), the mover's with ATTACH.
 *
 *   message   from      to       fields                       meaning
 *   ATTACH    prismd    mover    rank, total, fd              the rank's socket; total: bytes that prismd divides among the
 *                                                             device's ranks
 *   DETACH    prismd    mover    rank                         the rank is gone: forget its ranges and copies
 *   READY     mover     prismd   bytes, total, flag           bytes free now and in all on the device; flag 1: a software
 *                                                             GPU, whose memory is the host's own
 *   CONTEXT   rank      mover -> prismd  rank, ns             it has its context and serves this socket; ns: making the context
 *   WANT      rank      mover -> prismd  rank, bytes, total,  the rank needs `total` more physical memory than granted and
 *                                        flag                 asks for `bytes`, so as not to ask often (total 0: bytes);
 *                                                             flag 1: the device itself refused `bytes` of what is
 *                                                             granted already: make room for them;
 *                                                             flag 2: a host thread of the evicted rank cannot go on
 *                                                             before RESTORE (bytes 0; once an eviction; no answer)
 *   GRANT     prismd    mover -> rank    rank, bytes, flag    the answer to WANT, one each: granted in addition, bytes or
 *                                                             total of WANT; 0 = there
 *                                                             is not so much for one rank. To a WANT of flag 1, flag 1:
 *                                                             there is room now (bytes as asked; nothing is added)
 *   LESS      rank      mover -> prismd  rank, bytes          given back of what was granted
 *   EVICT     prismd    mover -> rank    rank                 park, then move everything out. No gate of the rank is
 *                                                             opened from before this is sent until RESTORED
 *   CANCEL    prismd    mover -> rank    rank                 the same taken back, if the rank has not parked yet
 *   PARKED    rank      mover -> prismd  rank, ns             every stream stands still (ns: since EVICT came)
 *   CANCELLED rank      mover -> prismd  rank, flag           it has not moved and goes on; flag 1: to its end, and is not to be
 *                                                             asked again
 *   OUT       rank      mover    range, bytes, flag, fd       copy this range out and keep it; flag 1: its memory is plain,
 *                                                             so any other rank's range may have it
 *   COPIED    mover     rank     range                        done (either way): the descriptor was closed
 *   OUT_END   rank      mover    rank, bytes                  all ranges sent; bytes in all
 *   EVICTED   mover     prismd   rank, bytes, range, ns,      all copied; the rank has released them (it says OUT_END
 *                                spilled                      after the last release); range: how many; ns: copying time,
 *                                                             spilled: bytes on disk of this rank
 *   RESTORE   prismd    mover -> rank    rank                 bring everything back, then let the streams go on
 *   TAKE      rank      mover    range, bytes                 asks for memory of a rank that leaves, for this range
 *   GIVEN     mover     rank     range, bytes, fd             the answer: the memory, and the copy in is under way (COPIED
 *                                                             follows); no fd: there is none, the rank makes it (IN)
 *   IN        rank      mover    range, bytes, fd             copy this range in (new physical memory)
 *   IN_END    rank      mover    rank, bytes                  all ranges are in; streams go on. Copies that were not asked
 *                                                             for are dropped: the program freed them meanwhile
 *   RESTORED  mover     prismd   rank, bytes, range, ns, total  as EVICTED; total: bytes of these that came into memory of ranks that left
 *   HOST      mover     prismd   bytes, total, spilled        pinned pool: in use, and pinned in all; bytes written to disk
 *                                                             so far (before every EVICTED and RESTORED, and when the
 *                                                             pool has grown or given back memory); ns: spent on pinning so far
 *   FAILED    any       prismd   text                         cannot go on: prismd ends the run with the text
 *
 * Memory that a leaving rank gives up while another comes goes to that one by way of the mover: creating it anew would have the
 * driver clear it, with the engines that copies use (measured: copies in at 32 instead of 48 GB/s beside copies out). CUDA does not
 * export what was imported, so a rank keeps the descriptor of memory that it was given for as long as it has it.
 *
 * Range numbers are never used twice by a rank. A rank has one WANT of flag 0 or 1 under way at a time; it may come at any
 * time, while it is parked or evicted too, and its GRANT too. EVICT to a rank that cannot be moved (it shares memory with
 * others, say) is always answered by CANCELLED. CANCEL after PARKED is too late and ignored.
 *
 * A rank that ends while it is moved: the mover drops what it holds on DETACH.
 */
#ifndef PRISM_PROTO_MOVER_H
#define PRISM_PROTO_MOVER_H

#include <stdint.h>

enum mover_type {
    MOVER_ATTACH = 1,
    MOVER_DETACH,
    MOVER_READY,
    MOVER_WANT,
    MOVER_GRANT,
    MOVER_LESS,
    MOVER_EVICT,
    MOVER_CANCEL,
    MOVER_PARKED,
    MOVER_CANCELLED,
    MOVER_OUT,
    MOVER_COPIED,
    MOVER_OUT_END,
    MOVER_EVICTED,
    MOVER_RESTORE,
    MOVER_IN,
    MOVER_IN_END,
    MOVER_RESTORED,
    MOVER_CONTEXT,
    MOVER_HOST,
    MOVER_TAKE,
    MOVER_GIVEN,
    MOVER_FAILED,
};

#define MOVER_TEXT 512u /* longest text of FAILED */

struct mover_message {
    uint32_t type; /* enum mover_type */
    uint32_t rank; /* world rank */
    uint32_t flag, unused;
    uint64_t range;   /* the rank's own number of the range; unique among its living ones */
    uint64_t bytes;
    uint64_t total;
    uint64_t spilled;
    int64_t ns;
};

/* Send m with descriptor fd (-1 = none; stays the caller's) and text (NULL = none). 0, or -1 with errno. */
int mover_send(int socket, const struct mover_message *m, int fd, const char *text);
/* Receive one message; *fd is the caller's to close, -1 = none; text holds MOVER_TEXT + 1 bytes or is NULL.
 * flags as for recvmsg(2). 1 = a message, 0 = the other end is closed, -1 with errno (EPROTO: not a message). */
int mover_receive(int socket, struct mover_message *m, int *fd, char *text, int flags);

#endif
