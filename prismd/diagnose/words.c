#include "prismd/diagnose/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RANGES 6 /* shown of a list of ranks */

void words_put(words out, const char *fmt, ...)
{
    size_t used = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + used, sizeof(words) - used, fmt, ap);
    va_end(ap);
}

const char *words_ranks(words out, const uint32_t *ranks, uint32_t n)
{
    out[0] = 0;
    words_put(out, n == 1 ? "rank " : "ranks ");
    for (uint32_t i = 0, shown = 0; i < n; shown++) {
        uint32_t last = i;
        while (last + 1 < n && ranks[last + 1] == ranks[last] + 1)
            last++;
        if (shown == RANGES) {
            words_put(out, ",…");
            break;
        }
        words_put(out, last > i ? "%s%u-%u" : "%s%u", shown ? "," : "", ranks[i], ranks[last]);
        i = last + 1;
    }
    if (n > 2)
        words_put(out, " (%u)", n);
    return out;
}
