#include "prismd/pace.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 4

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void pace_lag_add(struct pace_lag *lag, int64_t ns)
{
    lag->samples[lag->n++ % PACE_WINDOW] = ns;
}

int64_t pace_lag_ns(const struct pace_lag *lag)
{
    uint32_t n = lag->n < PACE_WINDOW ? lag->n : PACE_WINDOW;
    if (n < LEAST)
        return 0;
    int64_t sorted[PACE_WINDOW];
    memcpy(sorted, lag->samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    uint32_t cut = n / 10;
    int64_t sum = 0;
    for (uint32_t i = cut; i < n - cut; i++)
        sum += sorted[i];
    return sum / (int64_t)(n - 2 * cut);
}
