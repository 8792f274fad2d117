/* vmm_program.c - virtual memory that the program manages itself. Its handles are our ranges' numbers with a mark of ours, which
 * no handle of CUDA's has (addresses and small numbers). */
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "preload/memory/switch.h"
#include "preload/memory/vmm_private.h"

/* A range of the program's: known as long as it has handles or mappings. */
struct owned {
    CUmemGenericAllocationHandle handle;
    struct range *range;
    UT_hash_handle hh;
};

/* A mapping of one of them, by address. */
struct placed {
    CUdeviceptr address;
    uint64_t bytes;
    struct range *range;
};

static struct owned *ranges;
static struct placed *table;
static size_t count, room;

#define MARK ((CUmemGenericAllocationHandle)0x5052 << 48)

static CUmemGenericAllocationHandle handle_of(const struct range *r)
{
    return MARK | r->number;
}

/* One of ours, perhaps released already. */
static bool is_ours(CUmemGenericAllocationHandle handle)
{
    return handle >> 48 == MARK >> 48;
}

static struct range *range_of(CUmemGenericAllocationHandle handle)
{
    struct owned *o;
    HASH_FIND(hh, ranges, &handle, sizeof handle, o);
    return o ? o->range : NULL;
}

static size_t upper_bound(CUdeviceptr address)
{
    return vmm_upper_bound(table, sizeof *table, count, address);
}

static struct placed *holder(CUdeviceptr address)
{
    size_t at = upper_bound(address);
    return at && address - table[at - 1].address < table[at - 1].bytes ? &table[at - 1] : NULL;
}

static void insert(struct placed p)
{
    if (count == room) {
        room = room ? 2 * room : 256;
        table = realloc(table, room * sizeof *table);
        if (!table)
            abort();
    }
    size_t at = upper_bound(p.address);
    memmove(table + at + 1, table + at, (count - at) * sizeof *table);
    table[at] = p;
    count++;
}

static uint32_t mapping_at(const struct range *r, CUdeviceptr address)
{
    uint32_t i = 0;
    while (r->mappings[i].address != address)
        i++;
    return i;
}

/* CUDA keeps the memory while it has a handle or is mapped. */
static void drop_unused(struct range *r)
{
    if (r->handles || r->nmappings)
        return;
    CUmemGenericAllocationHandle handle = handle_of(r);
    struct owned *o;
    HASH_FIND(hh, ranges, &handle, sizeof handle, o);
    HASH_DEL(ranges, o);
    free(o);
    vmm_drop_range(r);
}

bool vmm_find_mapping(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes)
{
    const struct placed *p = holder(address);
    if (!p)
        return false;
    *base = p->address;
    *bytes = p->bytes;
    return true;
}

/* --- memory --- */

static CUresult create(CUmemGenericAllocationHandle *handle, uint64_t bytes, const CUmemAllocationProp *properties)
{
    struct range *r;
    /* A kind of sharing that other nodes could use: programs that try it have another way. */
    if (properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!bytes || bytes % PHYSICAL_GRAIN)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = vmm_range(bytes, properties, &r);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && vmm_await_frees())
        result = vmm_range(bytes, properties, &r);
    if (result)
        return result;
    struct owned *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->handle = handle_of(r);
    o->range = r;
    HASH_ADD(hh, ranges, handle, sizeof o->handle, o);
    *handle = o->handle;
    return CUDA_SUCCESS;
}

bool vmm_create(CUmemGenericAllocationHandle *handle, uint64_t bytes, const CUmemAllocationProp *properties, CUresult *result)
{
    if (!handle || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return false;
    residence_lock_present();
    vmm_reclaim_locked();
    *result = create(handle, bytes, properties);
    residence_unlock();
    return true;
}

bool vmm_release(CUmemGenericAllocationHandle handle, CUresult *result)
{
    if (!is_ours(handle))
        return false;
    residence_lock_free();
    struct range *r = range_of(handle);
    *result = r && r->handles ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!*result) {
        r->handles--;
        drop_unused(r);
    }
    residence_unlock();
    return true;
}

bool vmm_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address, CUresult *result)
{
    residence_lock();
    struct placed *p = holder(address);
    if (p && handle) {
        p->range->handles++;
        *handle = handle_of(p->range);
        *result = CUDA_SUCCESS;
    }
    residence_unlock();
    return p && handle;
}

bool vmm_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    residence_lock();
    struct range *r = range_of(handle);
    if (r && properties)
        *properties = r->properties;
    residence_unlock();
    return r && properties;
}

bool vmm_export(void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags,
                CUresult *result)
{
    if (!is_ours(handle))
        return false;
    residence_lock_present();
    struct range *r = range_of(handle);
    if (r && r->properties.requestedHandleTypes == type) {
        switch_tie("it shares device memory with other processes (cuMemExportToShareableHandle)");
        *result = shared && !flags ? physical_export(r, shared) : CUDA_ERROR_INVALID_VALUE;
    } else {
        *result = CUDA_ERROR_INVALID_VALUE;
    }
    residence_unlock();
    return true;
}

/* --- mappings --- */

bool vmm_map(CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemGenericAllocationHandle handle, CUresult *result)
{
    if (!is_ours(handle))
        return false;
    residence_lock_present();
    struct range *r = range_of(handle);
    *result = r ? physical_map(r, address, bytes, offset) : CUDA_ERROR_INVALID_VALUE;
    if (!*result)
        insert((struct placed){address, bytes, r});
    residence_unlock();
    return true;
}

/* Number of mappings from *first that fill [address, address + bytes) exactly, 0 if they do not. */
static size_t covered(CUdeviceptr address, uint64_t bytes, size_t *first)
{
    size_t at = upper_bound(address);
    CUdeviceptr end = address + bytes, reached = address;
    if (!at || table[at - 1].address != address)
        return 0;
    *first = at - 1;
    for (size_t i = *first; i < count && table[i].address == reached && reached < end; i++)
        reached += table[i].bytes;
    size_t n = 0;
    for (size_t i = *first; i < count && table[i].address < end; i++)
        n++;
    return reached == end ? n : 0;
}

bool vmm_unmap(CUdeviceptr address, uint64_t bytes, CUresult *result)
{
    size_t first = 0;
    residence_lock_free();
    size_t n = covered(address, bytes, &first);
    for (size_t i = first; i < first + n; i++) {
        struct range *r = table[i].range;
        *result = physical_unmap(r, mapping_at(r, table[i].address));
        if (*result)
            session_cuda_failed("cuMemUnmap", *result);
        drop_unused(r);
    }
    if (n) {
        memmove(table + first, table + first + n, (count - first - n) * sizeof *table);
        count -= n;
    }
    residence_unlock();
    return n;
}

/* The most that any device of the list may do: the rank has one device, whatever it calls it. */
static unsigned most_access(const CUmemAccessDesc *descriptions, size_t n)
{
    unsigned flags = 0;
    for (size_t i = 0; i < n; i++)
        if (descriptions[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            flags |= descriptions[i].flags;
    return flags;
}

bool vmm_set_access(CUdeviceptr address, uint64_t bytes, const CUmemAccessDesc *descriptions, size_t n, CUresult *result)
{
    size_t first = 0;
    residence_lock_present();
    size_t pieces = descriptions ? covered(address, bytes, &first) : 0;
    *result = CUDA_SUCCESS;
    for (size_t i = first; i < first + pieces && !*result; i++) {
        struct range *r = table[i].range;
        *result = physical_access(r, mapping_at(r, table[i].address), most_access(descriptions, n));
    }
    residence_unlock();
    return pieces;
}
