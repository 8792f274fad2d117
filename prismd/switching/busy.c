#include "prismd/switching/busy.h"

#include <string.h>

void busy_add(struct busy *b, int64_t end, int64_t duration)
{
    int64_t begin = end - duration;
    while (b->n && b->end[b->n - 1] >= begin) {
        b->n--;
        if (b->begin[b->n] < begin)
            begin = b->begin[b->n];
    }
    if (b->n == BUSY_KEPT) {
        b->before += b->end[0] - b->begin[0];
        b->n--;
        memmove(b->begin, b->begin + 1, b->n * sizeof *b->begin);
        memmove(b->end, b->end + 1, b->n * sizeof *b->end);
    }
    b->begin[b->n] = begin;
    b->end[b->n++] = end;
}

double busy_seconds(const struct busy *b)
{
    int64_t sum = b->before;
    for (uint32_t i = 0; i < b->n; i++)
        sum += b->end[i] - b->begin[i];
    return (double)sum / 1e9;
}
