#include "prismd/gates/pace.h"

#include <stdlib.h>
#include <string.h>

#define LEAST        4
#define LEAST_RECENT 3

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void pace_lag_add(struct pace_lag *lag, int64_t ns)
{
    lag->samples[lag->n++ % PACE_WINDOW] = ns;
}

static uint32_t sort(const struct pace_lag *lag, int64_t sorted[PACE_WINDOW])
{
    uint32_t n = lag->n < PACE_WINDOW ? lag->n : PACE_WINDOW;
    memcpy(sorted, lag->samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n;
}

static int64_t mean(const int64_t *values, uint32_t from, uint32_t to)
{
    int64_t sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += values[i];
    return sum / (int64_t)(to - from);
}

int64_t pace_lag_ns(const struct pace_lag *lag)
{
    int64_t sorted[PACE_WINDOW];
    uint32_t n = sort(lag, sorted);
    return n < LEAST ? 0 : mean(sorted, n / 10, n - n / 10);
}

int64_t pace_lag_low_ns(const struct pace_lag *lag)
{
    int64_t sorted[PACE_WINDOW];
    uint32_t n = sort(lag, sorted);
    return n < LEAST ? 0 : mean(sorted, n / 20, n / 4 > n / 20 ? n / 4 : n / 20 + 1);
}

void pace_recent_add(struct pace_recent *recent, int64_t ns)
{
    recent->samples[recent->n++ % PACE_RECENT] = ns;
}

int64_t pace_recent_ns(const struct pace_recent *recent, int64_t otherwise)
{
    int64_t sorted[PACE_RECENT];
    uint32_t n = recent->n < PACE_RECENT ? recent->n : PACE_RECENT;
    if (n < LEAST_RECENT)
        return otherwise;
    memcpy(sorted, recent->samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[n / 2];
}
