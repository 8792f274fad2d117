#include "preload/nodes/put.h"

#define STREAMS 1024u /* that are counted; of others nothing is said */
#define TRIES   64u

/* Written without a lock, by whoever launches. Places are never given back: a handle that comes back counts on. */
struct count {
    CUstream stream; /* atomic; NULL = free */
    uint32_t puts;   /* atomic */
};

static struct count counts[STREAMS];

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
    if (c)
        __atomic_add_fetch(&c->puts, 1, __ATOMIC_RELAXED);
}

bool put_is_alone(struct stream *s)
{
    const struct count *c = count_of(s->handle);
    uint32_t puts = c ? __atomic_load_n(&c->puts, __ATOMIC_RELAXED) : 0;
    bool alone = c && s->put_seen == puts && !s->blocking && s->handle != CU_STREAM_LEGACY;
    s->put_seen = puts;
    return alone;
}
