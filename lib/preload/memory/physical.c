#include "preload/memory/physical.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "preload/memory/keep.h"
#include "preload/preload.h"
#include "preload/real.h"

static struct range *first;
static uint64_t next_number = 1;

uint64_t physical_round(uint64_t bytes)
{
    return (bytes + PHYSICAL_GRAIN - 1) / PHYSICAL_GRAIN * PHYSICAL_GRAIN;
}

static CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

void physical_init(CUdevice device)
{
    location.id = device;
}

static CUresult create(struct range *r)
{
    CUmemAllocationProp real = r->properties;
    real.location = location;
    real.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUresult result = driver(cuMemCreate)(&r->handle, r->bytes, &real, 0);
    r->made = !result;
    return result;
}

static CUresult set_access(const struct mapping *m)
{
    CUmemAccessDesc access = {.location = location, .flags = m->access};
    return driver(cuMemSetAccess)(m->address, m->bytes, &access, 1);
}

CUresult physical_new(uint64_t bytes, const CUmemAllocationProp *properties, struct range **range)
{
    struct range *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->bytes = bytes;
    r->properties = *properties;
    CUresult result = create(r);
    if (result) {
        free(r);
        return result;
    }
    r->number = next_number++;
    r->given = -1;
    r->handles = 1;
    DL_PREPEND2(first, r, previous, next);
    *range = r;
    return CUDA_SUCCESS;
}

CUresult physical_map(struct range *r, CUdeviceptr address, uint64_t bytes, uint64_t offset)
{
    CUresult result = driver(cuMemMap)(address, bytes, offset, r->handle, 0);
    if (result)
        return result;
    if (r->nmappings == r->mappings_cap) {
        r->mappings_cap = r->mappings_cap ? 2 * r->mappings_cap : 1;
        r->mappings = realloc(r->mappings, r->mappings_cap * sizeof *r->mappings);
        if (!r->mappings)
            abort();
    }
    r->mappings[r->nmappings++] = (struct mapping){.address = address, .bytes = bytes, .offset = offset};
    return CUDA_SUCCESS;
}

CUresult physical_unmap(struct range *r, uint32_t mapping)
{
    struct mapping *m = &r->mappings[mapping];
    CUresult result = r->made ? driver(cuMemUnmap)(m->address, m->bytes) : CUDA_SUCCESS;
    if (!result)
        *m = r->mappings[--r->nmappings];
    return result;
}

CUresult physical_access(struct range *r, uint32_t mapping, unsigned flags)
{
    struct mapping changed = r->mappings[mapping];
    changed.access = flags;
    CUresult result = set_access(&changed);
    if (!result)
        r->mappings[mapping] = changed;
    return result;
}

void physical_delete(struct range *r)
{
    if (r->made)
        physical_drop(r);
    DL_DELETE2(first, r, previous, next);
    free(r->mappings);
    free(r);
}

struct range *physical_first(void)
{
    return first;
}

static void map_again(const struct range *r)
{
    for (uint32_t i = 0; i < r->nmappings; i++) {
        const struct mapping *m = &r->mappings[i];
        CUDA_MUST(driver(cuMemMap)(m->address, m->bytes, m->offset, r->handle, 0));
        if (m->access)
            CUDA_MUST(set_access(m));
    }
}

CUresult physical_make(struct range *r)
{
    CUresult result = create(r);
    if (!result)
        map_again(r);
    return result;
}

CUresult physical_take(struct range *r, int kept)
{
    CUresult result = driver(cuMemImportFromShareableHandle)(&r->handle, (void *)(intptr_t)kept, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result)
        return result;
    r->made = true;
    r->given = kept;
    map_again(r);
    return CUDA_SUCCESS;
}

bool physical_is_plain(const struct range *r)
{
    static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    const CUmemAllocationProp *p = &r->properties;
    return p->type == plain.type && !memcmp(&p->allocFlags, &plain.allocFlags, sizeof plain.allocFlags);
}

void physical_drop(struct range *r)
{
    for (uint32_t i = 0; i < r->nmappings; i++)
        CUDA_MUST(driver(cuMemUnmap)(r->mappings[i].address, r->mappings[i].bytes));
    CUDA_MUST(driver(cuMemRelease)(r->handle));
    keep_close(r->given);
    r->given = -1;
    r->made = false;
}

CUresult physical_export(const struct range *r, int *fd)
{
    if (r->given >= 0) {
        *fd = fcntl(r->given, F_DUPFD_CLOEXEC, 0);
        return *fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
    }
    return driver(cuMemExportToShareableHandle)(fd, r->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}
