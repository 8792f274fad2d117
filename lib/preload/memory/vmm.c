/* vmm.c - allocations; vmm_program.c has the program's own virtual memory, vmm_async.c frees in stream order. */
#include "preload/memory/vmm.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "preload/memory/grant.h"
#include "preload/gate/heap.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "preload/memory/vmm_private.h"

/* Allocations up to `most` bytes come out of blocks, first fit. The larger class is for eviction: handing a range over costs
 * some 300 us whatever its size (measured on an H200), and PyTorch's segments have 2 and 20 MiB. Its blocks are a whole
 * number of those; a rank of which little has to be moved does without it, lest its memory grows. `align` is a multiple of HEAP_ALIGN, so that offsets in a block stay multiples of it. */
static const struct class {
    uint64_t most, align, block;
} classes[] = {
    {(uint64_t)1 << 20, 512, PHYSICAL_GRAIN},
    {(uint64_t)20 << 20, PHYSICAL_GRAIN, (uint64_t)80 << 20},
};
#define CLASSES    (sizeof classes / sizeof *classes)
#define FEW        ((uint64_t)1 << 30) /* bytes of a rank below which the larger class is not used */

#define TRIES 1000 /* of making room, with other processes' contexts taking it away each time */

struct block {
    const struct class *class;
    struct range *range;
    CUdeviceptr address;
    struct heap heap;
    struct block *prev, *next;
};

struct allocation {
    CUdeviceptr address;
    uint64_t bytes; /* as asked for */
    struct range *range;
    struct block *block; /* NULL: the range is its own */
};

static struct block *blocks[CLASSES];
static struct allocation *table; /* by address */
static size_t count, room;
static uint64_t range_bytes; /* of all ranges */

/* --- ranges with an address --- */

CUresult vmm_range(uint64_t bytes, const CUmemAllocationProp *properties, struct range **range)
{
    if (!grant_take(bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = physical_new(bytes, properties, range);
    for (int i = 0; result == CUDA_ERROR_OUT_OF_MEMORY && i < TRIES && grant_make_room(bytes); i++)
        result = physical_new(bytes, properties, range);
    if (result)
        grant_give(bytes);
    else
        range_bytes += bytes;
    return result;
}

void vmm_drop_range(struct range *r)
{
    uint64_t bytes = r->bytes;
    physical_delete(r);
    grant_give(bytes);
    range_bytes -= bytes;
}

static CUresult mapped_range(uint64_t bytes, struct range **range, CUdeviceptr *address)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult result = vmm_range(bytes, &properties, range);
    if (result)
        return result;
    result = driver(cuMemAddressReserve)(address, bytes, 0, 0, 0);
    if (!result) {
        result = physical_map(*range, *address, bytes, 0);
        if (!result)
            result = physical_access(*range, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        if (result)
            driver(cuMemAddressFree)(*address, bytes);
    }
    if (result)
        vmm_drop_range(*range);
    return result;
}

static void drop_mapped_range(struct range *r, CUdeviceptr address)
{
    uint64_t bytes = r->bytes;
    vmm_drop_range(r);
    CUDA_MUST(driver(cuMemAddressFree)(address, bytes));
}

/* --- the table --- */

/* Index of the first allocation behind address. */
static size_t upper_bound(CUdeviceptr address)
{
    return vmm_upper_bound(table, sizeof *table, count, address);
}

static void insert(struct allocation a)
{
    if (count == room) {
        room = room ? 2 * room : 256;
        table = realloc(table, room * sizeof *table);
        if (!table)
            abort();
    }
    size_t at = upper_bound(a.address);
    memmove(table + at + 1, table + at, (count - at) * sizeof *table);
    table[at] = a;
    count++;
}

static struct allocation *holder(CUdeviceptr address)
{
    size_t at = upper_bound(address);
    if (!at)
        return NULL;
    struct allocation *a = &table[at - 1];
    return address - a->address < a->bytes ? a : NULL;
}

/* --- allocations in blocks --- */

static struct block **list_of(const struct class *c)
{
    return &blocks[c - classes];
}

static CUresult new_block(const struct class *c, struct block **out)
{
    struct block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    CUresult result = mapped_range(c->block, &b->range, &b->address);
    if (result) {
        free(b);
        return result;
    }
    b->class = c;
    heap_init(&b->heap, c->block);
    DL_APPEND(*list_of(c), b);
    *out = b;
    return CUDA_SUCCESS;
}

static uint64_t round_in(const struct class *c, uint64_t bytes)
{
    return (bytes + c->align - 1) / c->align * c->align;
}

static CUresult block_alloc(const struct class *c, uint64_t bytes, struct allocation *a)
{
    struct block *b;
    uint64_t offset = HEAP_NONE;
    DL_FOREACH(*list_of(c), b)
    {
        offset = heap_take(&b->heap, round_in(c, bytes));
        if (offset != HEAP_NONE)
            break;
    }
    if (!b) {
        CUresult result = new_block(c, &b);
        if (result)
            return result;
        offset = heap_take(&b->heap, round_in(c, bytes));
    }
    *a = (struct allocation){.address = b->address + offset, .bytes = bytes, .range = b->range, .block = b};
    return CUDA_SUCCESS;
}

static void block_free(struct block *b, const struct allocation *a)
{
    heap_give(&b->heap, a->address - b->address, round_in(b->class, a->bytes));
    if (heap_free_bytes(&b->heap) < b->class->block)
        return;
    DL_DELETE(*list_of(b->class), b);
    heap_clear(&b->heap);
    drop_mapped_range(b->range, b->address);
    free(b);
}

static const struct class *class_of(uint64_t bytes)
{
    if (bytes <= classes[0].most)
        return &classes[0];
    return bytes <= classes[1].most && range_bytes >= FEW ? &classes[1] : NULL;
}

/* --- the interface --- */

CUresult vmm_alloc_locked(CUdeviceptr *address, uint64_t bytes)
{
    struct allocation a = {.bytes = bytes};
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    const struct class *c = class_of(bytes);
    if (c)
        result = block_alloc(c, bytes, &a);
    /* A device that is nearly full may have room for this one and not for a block. */
    if (result == CUDA_ERROR_OUT_OF_MEMORY && c != &classes[0] && bytes <= UINT64_MAX - PHYSICAL_GRAIN)
        result = mapped_range(physical_round(bytes), &a.range, &a.address);
    if (result)
        return result;
    insert(a);
    *address = a.address;
    return CUDA_SUCCESS;
}

bool vmm_free_locked(CUdeviceptr address)
{
    struct allocation *found = holder(address);
    if (!found || found->address != address)
        return false;
    struct allocation a = *found;
    memmove(found, found + 1, (size_t)(table + count - (found + 1)) * sizeof *table);
    count--;
    if (a.block)
        block_free(a.block, &a);
    else
        drop_mapped_range(a.range, a.address);
    return true;
}

bool vmm_find_allocation(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes)
{
    const struct allocation *a = holder(address);
    if (!a)
        return false;
    *base = a->address;
    *bytes = a->bytes;
    return true;
}

CUresult vmm_alloc(CUdeviceptr *address, uint64_t bytes)
{
    residence_lock_present();
    vmm_reclaim_locked();
    CUresult result = vmm_alloc_locked(address, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && vmm_await_frees())
        result = vmm_alloc_locked(address, bytes);
    residence_unlock();
    return result;
}

bool vmm_free(CUdeviceptr address)
{
    residence_lock_free();
    vmm_reclaim_locked();
    bool ours = vmm_free_locked(address);
    residence_unlock();
    return ours;
}

bool vmm_find(CUdeviceptr address, CUdeviceptr *base, uint64_t *bytes)
{
    CUdeviceptr b;
    uint64_t n;
    if (!residence_is_on())
        return false;
    residence_lock();
    bool found = vmm_find_allocation(address, &b, &n) || vmm_find_mapping(address, &b, &n);
    residence_unlock();
    if (found && base)
        *base = b;
    if (found && bytes)
        *bytes = n;
    return found;
}

bool vmm_asking(const void *address)
{
    bool ours = vmm_owns(address);
    if (ours)
        residence_hold();
    return ours;
}

void vmm_asked(bool held)
{
    if (held)
        residence_let_go();
}

void vmm_correct_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    CUdeviceptr base;
    uint64_t bytes;
    if (attribute != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        return;
    if (!vmm_find(address, &base, &bytes))
        return;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)data = bytes;
    else
        *(CUdeviceptr *)data = base;
}

void vmm_info(uint64_t *free_bytes, uint64_t *total_bytes)
{
    residence_lock();
    vmm_reclaim_locked();
    grant_info(free_bytes, total_bytes);
    residence_unlock();
}
