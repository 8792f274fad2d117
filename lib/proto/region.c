#include "proto/region.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *region_map(int fd, int protection, size_t *size)
{
    void *region;
    while ((region = mmap(NULL, *size, protection, MAP_SHARED | MAP_NORESERVE, fd, 0)) == MAP_FAILED) {
        if (*size / 2 <= REGION_HEAP_OFFSET)
            return NULL;
        *size = *size / 2 / REGION_HEAP_OFFSET * REGION_HEAP_OFFSET; /* whole pages */
    }
    madvise(region, *size, MADV_DONTDUMP);
    return region;
}

void region_word_set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    region_word_wake(word);
}

void region_word_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int region_word_reached(const uint32_t *word, uint32_t value)
{
    return (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
}
