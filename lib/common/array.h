/* array.h - arrays of zeros, and room for one more in a growing array. Out of memory ends the process, as in bytes.h. */
#ifndef PRISM_COMMON_ARRAY_H
#define PRISM_COMMON_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/* n elements of `size` bytes, all zero; free() it. Not NULL where n is 0, either. */
static inline void *array_zeros(size_t n, size_t size)
{
    void *array = calloc(n ? n : 1, size);
    if (!array)
        abort();
    return array;
}

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
