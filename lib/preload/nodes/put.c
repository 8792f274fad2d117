#include "preload/nodes/put.h"

uint32_t put_counts_[PUT_STREAMS];

bool put_is_alone(struct stream *s)
{
    uint32_t count = __atomic_load_n(put_count_of_(s->handle), __ATOMIC_RELAXED);
    bool alone = s->put_seen == count && !s->blocking && s->handle != CU_STREAM_LEGACY;
    s->put_seen = count;
    return alone;
}
