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

int64_t blocked_nccl(struct blocked_nccl *seen, size_t calls, int64_t lasted_ns)
{
    size_t like = 0, kinds = sizeof seen->least_ns / sizeof *seen->least_ns;
    for (; calls; calls >>= 1)
        like++;
    int64_t *least = &seen->least_ns[like < kinds ? like : kinds - 1];
    if (!*least || lasted_ns < *least)
        *least = lasted_ns;
    return lasted_ns > BLOCKED_NCCL_TIMES * *least ? *least : lasted_ns;
}
