/* format.c - numbers as people read them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "common/bytes.h"

char *format_bytes(char *buf, size_t len, double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buf, len, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

char *format_seconds(char *buf, size_t len, double seconds)
{
    double size = fabs(seconds);
    if (size >= 100)
        snprintf(buf, len, "%.0f min %04.1f s", floor(seconds / 60), fmod(seconds, 60));
    else if (size >= 1 || size == 0)
        snprintf(buf, len, "%.3f s", seconds);
    else if (size >= 1e-3)
        snprintf(buf, len, "%.3f ms", seconds * 1e3);
    else
        snprintf(buf, len, "%.1f us", seconds * 1e6);
    return buf;
}

char *format_ranks(const uint32_t *ranks, size_t n)
{
    struct bytes out = { 0 };
    for (size_t i = 0; i < n;) {
        size_t last = i;
        while (last + 1 < n && ranks[last + 1] == ranks[last] + 1)
            last++;
        char part[32];
        int len = last == i ? snprintf(part, sizeof(part), "%s%u", i ? "," : "", ranks[i])
                            : snprintf(part, sizeof(part), "%s%u%s%u", i ? "," : "", ranks[i],
                                       last == i + 1 ? "," : "-", ranks[last]);
        bytes_put(&out, part, (size_t)len);
        i = last + 1;
    }
    bytes_put_u8(&out, 0);
    return (char *)out.data;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(const double *values, size_t n)
{
    if (n == 0)
        return NAN;
    double *sorted = malloc(n * sizeof(*sorted));
    if (!sorted)
        return NAN;
    memcpy(sorted, values, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    double result = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return result;
}

int print_json(json_t *json)
{
    int failed = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0 || putchar('\n') == EOF ||
                 fflush(stdout) != 0;
    json_decref(json);
    return failed ? PRISM_EXIT_SYSTEM : 0;
}
