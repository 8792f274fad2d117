#include "prismd/assistant/shelf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "coll/plan.h"

struct kept {
    CUdeviceptr device;
    uint64_t bytes;
    struct order_segment *segments; /* owned; the hash key */
    UT_hash_handle hh;
};

struct shelf {
    struct kept *all; /* hash */
};

static uint64_t room; /* bytes left, of all shelves; atomic */

void shelf_init(void)
{
    const char *text = getenv("PRISM_ASSISTANT_MEMORY"); /* a number: prismd has looked (prismd/conf.c) */
    size_t free_bytes = 0, total = 0;
    GPU_MUST(gpu_cu(cuMemGetInfo)(&free_bytes, &total));
    room = text && *text ? strtoull(text, NULL, 10) : free_bytes / 2;
}

struct shelf *shelf_create(void)
{
    struct shelf *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    return s;
}

void shelf_destroy(struct shelf *s)
{
    struct kept *k, *next;
    if (!s)
        return;
    HASH_ITER(hh, s->all, k, next)
    {
        HASH_DEL(s->all, k);
        GPU_MUST(gpu_cu(cuMemFree)(k->device));
        __atomic_fetch_add(&room, k->bytes, __ATOMIC_RELAXED);
        free(k->segments);
        free(k);
    }
    free(s);
}

static unsigned key_size(const struct order_run *order)
{
    return (unsigned)(order->nsegments * sizeof(struct order_segment));
}

CUdeviceptr shelf_find(const struct shelf *s, const struct order_run *order)
{
    struct kept *k = NULL;
    if (order->payload_bytes && order->nsegments)
        HASH_FIND(hh, s->all, order_segments(order), key_size(order), k);
    return k && k->bytes == order->payload_bytes ? k->device : 0;
}

static bool is_written(const struct order_run *order)
{
    const struct order_call *calls = order_calls(order);
    for (uint32_t i = 0; i < order->ncalls; i++)
        if (calls[i].to_buffer == COLL_BUFFER_PAYLOAD)
            return true;
    return false;
}

static bool take_room(uint64_t bytes)
{
    uint64_t left = __atomic_load_n(&room, __ATOMIC_RELAXED);
    while (left >= bytes)
        if (__atomic_compare_exchange_n(&room, &left, left - bytes, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
    return false;
}

void shelf_put(struct shelf *s, const struct order_run *order, CUdeviceptr from, CUstream stream)
{
    struct kept *k = NULL;
    CUdeviceptr device;
    if (order->nsegments)
        HASH_FIND(hh, s->all, order_segments(order), key_size(order), k);
    if (!order->nsegments || k || is_written(order) || !take_room(order->payload_bytes))
        return;
    if (gpu_cu(cuMemAlloc)(&device, order->payload_bytes)) { /* others have it: no more is kept */
        __atomic_store_n(&room, 0, __ATOMIC_RELAXED);
        return;
    }
    GPU_MUST(gpu_cu(cuMemcpyDtoDAsync)(device, from, order->payload_bytes, stream));
    k = calloc(1, sizeof *k);
    if (!k || !(k->segments = malloc(key_size(order))))
        abort();
    memcpy(k->segments, order_segments(order), key_size(order));
    k->device = device;
    k->bytes = order->payload_bytes;
    HASH_ADD_KEYPTR(hh, s->all, k->segments, key_size(order), k);
}
