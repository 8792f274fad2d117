#include "preload/nodes/blocked.h"

PRISM_THREAD struct blocked blocked_;

void blocked_note(int64_t lasted_ns)
{
    struct blocked *b = &blocked_;
    b->since_ns = 0;
    if (!b->least_ns || lasted_ns < b->least_ns)
        b->least_ns = lasted_ns;
    if (lasted_ns > BLOCKED_LEAST_NS)
        b->ns += lasted_ns - b->least_ns;
}

int64_t blocked_take(void)
{
    int64_t ns = blocked_.ns;
    blocked_.ns = 0;
    return ns;
}
