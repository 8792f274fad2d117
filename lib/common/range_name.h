/* range_name.h - the hash by which a range that a program names (NVTX) is known, in the preload library and in prismd. Digits count as one
 * sign, however many: "step 9" and "step 10" are one name.
 */
#ifndef PRISM_COMMON_RANGE_NAME_H
#define PRISM_COMMON_RANGE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define RANGE_NAME_BASIS 0xcbf29ce484222325u /* FNV-1a */
#define RANGE_NAME_PRIME 0x100000001b3u

static inline uint64_t range_name_letter(uint64_t hash, uint32_t letter, bool *in_number)
{
    bool digit = letter >= '0' && letter <= '9', again = digit && *in_number;
    *in_number = digit;
    return again ? hash : (hash ^ (digit ? '0' : letter)) * RANGE_NAME_PRIME;
}

/* 0: no name (NULL, or empty). */
static inline uint64_t range_name(const char *text)
{
    uint64_t hash = RANGE_NAME_BASIS;
    bool in_number = false;
    if (!text || !*text)
        return 0;
    for (; *text; text++)
        hash = range_name_letter(hash, (uint8_t)*text, &in_number);
    return hash | 1;
}

#endif
