/* scratch.h - a buffer kept from one use to the next: pages of fresh memory cost more than what is computed in them. */
#ifndef PRISM_COMMON_SCRATCH_H
#define PRISM_COMMON_SCRATCH_H

#include <stdlib.h>

struct scratch {
    void *bytes;
    size_t size;
};

/* At least `bytes` bytes, whatever is in them; until the next call. Ends the process where there is no memory. */
static inline void *scratch_of(struct scratch *s, size_t bytes)
{
    if (!s->bytes || bytes > s->size) {
        free(s->bytes);
        s->size = bytes ? bytes : 1;
        if (!(s->bytes = malloc(s->size)))
            abort();
    }
    return s->bytes;
}

static inline void scratch_drop(struct scratch *s)
{
    free(s->bytes);
    *s = (struct scratch){0};
}

#endif
