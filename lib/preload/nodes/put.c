#include "preload/nodes/put.h"

#include <stdlib.h>

#include "preload/gate/gate_kernel.h"

#define STREAMS 1024u /* that are counted; of others nothing is said */
#define TRIES   64u

/* Written without a lock, by whoever launches. Places are never given back: a handle that comes back counts on. */
struct count {
    CUstream stream; /* atomic; NULL = free */
    uint32_t puts;   /* atomic */
};

static struct count counts[STREAMS];
static uint32_t all; /* atomic */

/* The user has streams share hardware queues (Megatron-LM asks for one), so any may have to wait behind any other's work. CUDA's own
 * default of eight is not counted as that. */
static bool streams_share_queues(void)
{
    static int8_t known;
    if (!known) {
        const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
        known = queues && gate_kernel_queues(queues) < gate_kernel_queues(NULL) ? 1 : -1;
    }
    return known > 0;
}

/* NULL: the default stream, or there is no place. */
static struct count *count_of(CUstream stream)
{
    uint64_t at = (uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15) >> 48;
    for (uint32_t i = 0; stream && i < TRIES; i++) {
        struct count *c = &counts[(at + i) % STREAMS];
        CUstream there = __atomic_load_n(&c->stream, __ATOMIC_ACQUIRE);
        if (there == stream || (!there && (__atomic_compare_exchange_n(&c->stream, &there, stream, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || there == stream)))
            return c;
    }
    return NULL;
}

void put_note_slow(CUstream stream)
{
    struct count *c = count_of(stream);
    __atomic_add_fetch(&all, 1, __ATOMIC_RELAXED);
    if (c)
        __atomic_add_fetch(&c->puts, 1, __ATOMIC_RELAXED);
}

bool put_is_alone(struct stream *s)
{
    const struct count *c = count_of(s->handle);
    uint32_t puts = c ? __atomic_load_n(streams_share_queues() ? &all : &c->puts, __ATOMIC_RELAXED) : 0;
    bool alone = c && s->put_seen == puts && !s->blocking && s->handle != CU_STREAM_LEGACY;
    s->put_seen = puts;
    return alone;
}
