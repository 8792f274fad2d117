#include "preload/memory/memory.h"

#include <pthread.h>
#include <stdlib.h>

#include <uthash.h>

#include "common/clock.h"
#include "preload/preload.h"
#include "preload/real.h"
#include "preload/memory/residence.h"
#include "preload/gate/slots.h"
#include "preload/socket.h"
#include "preload/memory/vmm.h"

struct allocation {
    struct {
        uint64_t kind, key;
    } id;
    uint64_t bytes;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;
static uint64_t live, peak, reported_peak;
static int64_t reported_ns;

static uint64_t *deferred;
static size_t ndeferred, deferred_cap;

static void report_locked(void)
{
    struct msg_memory m = {.h = {MSG_MEMORY, sizeof m}, .live_bytes = live, .peak_bytes = peak};
    socket_send(&m, sizeof m);
    reported_peak = peak;
    reported_ns = clock_now_ns();
}

void memory_add(enum memory_kind kind, uint64_t key, uint64_t bytes)
{
    struct allocation *a = calloc(1, sizeof *a);
    if (!a)
        abort();
    a->id.kind = kind;
    a->id.key = key;
    a->bytes = bytes;
    pthread_mutex_lock(&lock);
    HASH_ADD(hh, allocations, id, sizeof a->id, a);
    live += bytes;
    if (live > peak)
        peak = live;
    if (peak > reported_peak && clock_now_ns() - reported_ns >= NSEC_PER_SEC)
        report_locked();
    pthread_mutex_unlock(&lock);
}

bool memory_remove(enum memory_kind kind, uint64_t key)
{
    struct allocation *a, wanted = {.id = {kind, key}};
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, allocations, &wanted.id, sizeof wanted.id, a);
    if (a) {
        HASH_DEL(allocations, a);
        live -= a->bytes;
    }
    pthread_mutex_unlock(&lock);
    bool found = a != NULL;
    free(a);
    return found;
}

void memory_free_all(void)
{
    struct allocation *a, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, allocations, a, next)
    {
        HASH_DEL(allocations, a);
        live -= a->bytes;
        if (a->id.kind == MEMORY_POINTER && !(residence_is_on() && vmm_free((CUdeviceptr)a->id.key)))
            driver(cuMemFree)((CUdeviceptr)a->id.key);
        free(a);
    }
    pthread_mutex_unlock(&lock);
}

void memory_report(void)
{
    pthread_mutex_lock(&lock);
    report_locked();
    pthread_mutex_unlock(&lock);
}

void memory_defer_free(uint64_t pointer)
{
    if (ndeferred == deferred_cap) {
        deferred_cap = deferred_cap ? deferred_cap * 2 : 64;
        deferred = realloc(deferred, deferred_cap * sizeof *deferred);
        if (!deferred)
            abort();
    }
    deferred[ndeferred++] = pointer;
}

void memory_free_deferred(void)
{
    if (!ndeferred || slots_reclaim())
        return;
    for (size_t i = 0; i < ndeferred; i++)
        driver(cuMemFree)((CUdeviceptr)deferred[i]);
    ndeferred = 0;
}
