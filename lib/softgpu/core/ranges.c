/* ranges.c - what an address is: a sorted list of ranges. A mapped range lies inside a reserved one. */
#include <stdlib.h>
#include <string.h>

#include "softgpu/core/internal.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sg_range *ranges[2]; /* 0: reserved address ranges; 1: all others */
static size_t count[2], room[2];
static unsigned long long next_id = 1;

static int list_of(enum sg_range_kind kind)
{
    return kind == SG_RANGE_RESERVED ? 0 : 1;
}

/* Index of the first range that begins after address. */
static size_t upper_bound(int list, uintptr_t address)
{
    size_t low = 0, high = count[list];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[list][middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct sg_range *holder(int list, uintptr_t address)
{
    size_t i = upper_bound(list, address);
    if (i == 0)
        return NULL;
    struct sg_range *range = &ranges[list][i - 1];
    return address - range->base < range->size ? range : NULL;
}

static bool overlaps(int list, uintptr_t base, size_t size)
{
    size_t i = upper_bound(list, base);
    return (i > 0 && base - ranges[list][i - 1].base < ranges[list][i - 1].size) ||
           (i < count[list] && ranges[list][i].base - base < size);
}

CUresult sg_range_add(const struct sg_range *range)
{
    int list = list_of(range->kind);
    CUresult result = CUDA_SUCCESS;
    pthread_rwlock_wrlock(&lock);
    if (overlaps(list, range->base, range->size)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        if (count[list] == room[list]) {
            size_t more = room[list] ? 2 * room[list] : 64;
            struct sg_range *grown = realloc(ranges[list], more * sizeof(*grown));
            if (grown) {
                ranges[list] = grown;
                room[list] = more;
            } else {
                result = CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
        if (result == CUDA_SUCCESS) {
            size_t i = upper_bound(list, range->base);
            memmove(&ranges[list][i + 1], &ranges[list][i], (count[list] - i) * sizeof(*range));
            ranges[list][i] = *range;
            ranges[list][i].id = next_id++;
            count[list]++;
        }
    }
    pthread_rwlock_unlock(&lock);
    return result;
}

static bool copy_out(const struct sg_range *found, struct sg_range *range)
{
    if (found && range)
        *range = *found;
    return found != NULL;
}

bool sg_range_find(uintptr_t address, struct sg_range *range)
{
    pthread_rwlock_rdlock(&lock);
    struct sg_range *found = holder(1, address);
    bool ok = copy_out(found ? found : holder(0, address), range);
    pthread_rwlock_unlock(&lock);
    return ok;
}

bool sg_range_find_kind(uintptr_t address, enum sg_range_kind kind, struct sg_range *range)
{
    pthread_rwlock_rdlock(&lock);
    struct sg_range *found = holder(list_of(kind), address);
    bool ok = copy_out(found && found->kind == kind ? found : NULL, range);
    pthread_rwlock_unlock(&lock);
    return ok;
}

bool sg_range_remove(uintptr_t base, enum sg_range_kind kind, struct sg_range *range)
{
    int list = list_of(kind);
    pthread_rwlock_wrlock(&lock);
    struct sg_range *found = holder(list, base);
    bool ok = copy_out(found && found->base == base && found->kind == kind ? found : NULL, range);
    if (ok) {
        size_t i = (size_t)(found - ranges[list]);
        count[list]--;
        memmove(found, found + 1, (count[list] - i) * sizeof(*found));
    }
    pthread_rwlock_unlock(&lock);
    return ok;
}

bool sg_range_set_flags(uintptr_t base, enum sg_range_kind kind, unsigned flags)
{
    pthread_rwlock_wrlock(&lock);
    struct sg_range *found = holder(list_of(kind), base);
    bool ok = found && found->base == base && found->kind == kind;
    if (ok)
        found->flags = flags;
    pthread_rwlock_unlock(&lock);
    return ok;
}

bool sg_range_overlaps(uintptr_t base, size_t size, enum sg_range_kind kind)
{
    pthread_rwlock_rdlock(&lock);
    bool answer = overlaps(list_of(kind), base, size);
    pthread_rwlock_unlock(&lock);
    return answer;
}

bool sg_address_is_device(uintptr_t address, int *device)
{
    struct sg_range range;
    if (!sg_range_find(address, &range) || range.kind == SG_RANGE_HOST || range.kind == SG_RANGE_REGISTERED ||
        range.kind == SG_RANGE_RESERVED)
        return false;
    *device = range.device;
    return true;
}

bool sg_address_is_pinned(uintptr_t address)
{
    struct sg_range range;
    return sg_range_find(address, &range) && (range.kind == SG_RANGE_HOST || range.kind == SG_RANGE_REGISTERED ||
                                              range.kind == SG_RANGE_MANAGED);
}
