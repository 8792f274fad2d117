/* array.h - room for one more in a growing array. Out of memory ends the process, as in bytes.h. */
#ifndef PRISM_COMMON_ARRAY_H
#define PRISM_COMMON_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/* The array (NULL where *cap is 0), perhaps moved, with room for more than n elements of `size` bytes; *cap counts elements. */
static inline void *array_room(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return array;
    *cap = *cap ? *cap * 2 : 64;
    array = realloc(array, *cap * size);
    if (!array)
        abort();
    return array;
}

#endif
