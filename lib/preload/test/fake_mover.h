/* fake_mover.h - both ends behind a rank's mover socket (proto/mover.h): prismd, who decides, and the mover, who copies. To be
 * used in the thread of fake.switching. On the software GPU an exported descriptor is a memory file, so it is mapped. */
#ifndef PRISM_PRELOAD_TEST_FAKE_MOVER_H
#define PRISM_PRELOAD_TEST_FAKE_MOVER_H

#include "preload/test/fake_prismd.h"
#include "proto/mover.h"

struct fake_copy {
    uint64_t range, bytes;
    void *content;
    struct fake_copy *next;
};

/* Device memory that was moved out, kept for whichever range of its size comes in. */
struct fake_memory {
    uint64_t bytes;
    int fd;
    struct fake_memory *next;
};

struct fake_mover {
    struct fake_rank *rank;
    uint64_t capacity, granted, most_granted; /* bytes; a WANT beyond capacity is answered by 0 */
    struct fake_copy *copies;                 /* what is out */
    struct fake_memory *memories;             /* of every second plain range */
    uint32_t outs, given;                     /* ranges out; ranges in that got such memory */
    uint32_t evictions, cancelled, ranges, waiting /* WANT of flag 2 */;
    uint64_t out_bytes, dropped; /* bytes of the last eviction; copies never asked for again */
    int64_t parked_ns, away_ns;  /* the last move: when its streams stood; from then until it was back */
    bool gone;                   /* the rank has ended */
};

void mover_begin(struct fake_mover *m, struct fake_rank *rank, uint64_t capacity);
void mover_end(struct fake_mover *m);
/* Answer for that long, or until the rank is gone. */
void mover_serve(struct fake_mover *m, int ms);
/* Hold the rank's gates and move it out, giving up (CANCEL) after ms. True: evicted. */
bool mover_evict(struct fake_mover *m, int ms);
/* Back in, and let gates open. */
void mover_restore(struct fake_mover *m);

#endif
