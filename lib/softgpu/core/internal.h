/* internal.h - the engine inside libcuda.so.1: what its files share. Not seen by libcudart and libnccl (engine.h is).
 *
 * Locks. One mutex, sg_lock, guards streams, queues, events, contexts and hardware queues of the process; it is never
 * held while something sleeps or runs. The registry of address ranges (ranges.c) and each device's state file
 * (shared.c) have locks of their own, taken last.
 */
#ifndef SOFTGPU_INTERNAL_H
#define SOFTGPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#pragma GCC visibility push(default)
#include <cuda.h>
#include "softgpu/softgpu.h"
#pragma GCC visibility pop

#include "softgpu/core/engine.h"

#define SG_MAX_DEVICES 64
#define SG_BLOCK_BYTES (2u << 20) /* what a device hands out physical memory in, as CUDA */

/* --- profile.c: numbers of the device, from built-in values, SOFTGPU_PROFILE and the environment --- */

struct sg_profile {
    char name[128];
    double time_scale;        /* multiplies every modelled duration */
    double flops;             /* floating-point operations a second */
    double bandwidth;         /* device memory, bytes a second */
    double launch_overhead;   /* seconds a kernel */
    double pcie_bandwidth;    /* host to device and back, bytes a second */
    double pcie_latency;      /* seconds a copy */
    double peer_bandwidth;    /* device to device, bytes a second */
    double overlap_slowdown;  /* kernels beside communication take 1 + this times as long */
    double jitter;            /* relative standard deviation of kernel durations */
    double gate_poll_max;     /* seconds between looks at a flag whose writer does not wake */
    bool time_slicing;        /* kernels of all processes on a device take turns */
    uint64_t memory;          /* bytes of a device */
    uint64_t context_bytes;   /* device memory that a process's context takes */
    double context_seconds;   /* of the wall clock: to make one; those of a device are made one after another */
    uint64_t seed;
    int multiprocessors, major, minor;
    int connections;          /* hardware queues: CUDA_DEVICE_MAX_CONNECTIONS */
    uint64_t queue_entries;   /* items that a stream holds before who adds one waits; 0: any number */
    bool lazy_loading;        /* a kernel's first launch waits for its context, and holds up what is added meanwhile */
    bool ptx_compiler;        /* modules of PTX can be loaded */
    size_t stack_bytes;       /* of a stream's thread */
    bool untimed;             /* SOFTGPU_UNTIMED: nothing takes modelled time, streams have no threads (driver.c) */
};

/* The profile, read at the first call. Mistakes in it are told on standard error once and end in the built-in value. */
const struct sg_profile *sg_profile(void);
int64_t sg_scaled_ns(double seconds); /* seconds of the profile to nanoseconds of the clock */

/* --- clock.c --- */

int64_t sg_real_now(void); /* CLOCK_MONOTONIC, ns */
/* Sleep until the absolute time; adds the lateness of the wake-up to the statistics. */
void sg_sleep_until(int64_t ns);
void sg_count_item(int64_t real_ns, int64_t model_ns);
/* The host blocked for something that ended at end_ns (model); entered_ns is sg_host_now() before it did. */
void sg_host_waited(int64_t entered_ns, int64_t end_ns);

/* --- shared.c: the part of a device that all its processes see --- */

struct sg_shared;
struct sg_shared *sg_shared_open(int node, int index); /* NULL: no state folder or no slot; said on stderr */
void sg_shared_close(struct sg_shared *shared);        /* gives this process's slot back */
/* Take or give back device memory. False: more than capacity would be in use. */
bool sg_shared_take(struct sg_shared *shared, uint64_t bytes, uint64_t capacity);
void sg_shared_give(struct sg_shared *shared, uint64_t bytes);
void sg_shared_hold(struct sg_shared *shared, double seconds); /* asleep, while no other process does or opens the device */
uint64_t sg_shared_used(struct sg_shared *shared); /* by all live processes */
void sg_shared_comm(struct sg_shared *shared, int64_t start_ns, int64_t end_ns);
/* Nanoseconds of [start_ns, end_ns] during which communication is active. */
int64_t sg_shared_comm_overlap(struct sg_shared *shared, int64_t start_ns, int64_t end_ns);
/* Take the device for duration from start_ns at the earliest; returns the start (time_slicing). */
int64_t sg_shared_turn(struct sg_shared *shared, int64_t start_ns, int64_t duration_ns);

/* --- device.c --- */

struct sg_device {
    int ordinal;
    struct sg_place place;
    struct sg_shared *shared; /* opened at the first context */
    struct CUctx_st *primary;
    struct CUmemPoolHandle_st *default_pool, *pool;
};

CUresult sg_init(void);              /* idempotent; CUDA_ERROR_NOT_INITIALIZED in a child forked after it */
CUresult sg_check_init(void);        /* CUDA_ERROR_NOT_INITIALIZED before cuInit */
int sg_device_count(void);
struct sg_device *sg_device_get(int ordinal); /* NULL: no such device */
struct sg_device *sg_device_opened(int ordinal); /* with its state file; NULL: none */

/* --- context.c --- */

struct CUctx_st {
    uint32_t magic;
    int device;
    bool primary;
    int retained; /* primary: cuDevicePrimaryCtxRetain minus Release */
    atomic_bool active; /* primary: it is retained; others: not destroyed */
    unsigned flags;
    unsigned long long id;
    struct CUstream_st *streams; /* list of all, the legacy stream included */
    struct CUstream_st *legacy;
    int closed_gates;            /* streams that stand at a closed gate */
    int64_t opened_ns;           /* model time at which a hardware queue was last freed */
    pthread_cond_t queue_free;
    struct sg_mark *loading;     /* what is added to streams waits for it; NULL: no kernel is being loaded */
    unsigned long long peers;    /* bit a device: peer access enabled */
};

struct CUctx_st *sg_context_current(void); /* NULL: none; whether it can be used or not */
/* The current one. INVALID_CONTEXT: there is none; CONTEXT_IS_DESTROYED: it is not active. */
CUresult sg_context_usable(struct CUctx_st **context);
CUresult sg_context_primary(int device, struct CUctx_st **context); /* without retaining */
bool sg_context_valid(const struct CUctx_st *context);
/* Wait for everything enqueued so far in the context. */
CUresult sg_context_synchronize(struct CUctx_st *context);
/* The same, and nothing that is added meanwhile begins before: how a kernel is loaded (sg_profile()->lazy_loading). */
void sg_context_load(struct CUctx_st *context);
/* The same for all contexts of a device, as cudaFree does. */
void sg_device_synchronize(int device);

/* --- stream.c --- */

extern pthread_mutex_t sg_lock;

/* A point of a stream that others can wait for; counted references. */
struct sg_mark {
    atomic_int refs;
    atomic_int done; /* futex word */
    atomic_int waiters;
    int64_t end_ns; /* model time, once done */
};

struct sg_mark *sg_mark_ref(struct sg_mark *mark);
void sg_mark_unref(struct sg_mark *mark); /* takes NULL */
bool sg_mark_done(struct sg_mark *mark);
int64_t sg_mark_wait(struct sg_mark *mark); /* blocks; returns end_ns */

/* What an item needs to begin (measured on an H200, see gate.c), and whether it may sleep. */
enum sg_item_kind {
    SG_ITEM_FREE,          /* nothing: copies between host and device, frees of pools */
    SG_ITEM_QUEUED,        /* a free hardware queue: kernels, fills, copies on the device, events */
    SG_ITEM_GATES,         /* the same: memory operations (ctx is what sg_gates_step takes) */
    SG_ITEM_SLEEPS,        /* nothing, and may sleep for others: host functions */
    SG_ITEM_QUEUED_SLEEPS, /* a free hardware queue, and may sleep: NCCL, kernels that poll */
};

struct sg_item {
    struct sg_item *next;
    enum sg_item_kind kind;
    sg_work_fn fn;
    void *ctx;
    int64_t floor_ns;     /* the latest of the host's clock at enqueueing and of the idle streams it is ordered after */
    struct sg_mark *mark; /* made when someone first wants to wait for the item */
    bool begun;           /* driver.c: it has waited for all it depends on; floor_ns is its start */
    int ndeps;
    struct sg_mark *deps[]; /* referenced */
};

static inline bool sg_item_needs_queue(const struct sg_item *item)
{
    return item->kind == SG_ITEM_QUEUED || item->kind == SG_ITEM_GATES || item->kind == SG_ITEM_QUEUED_SLEEPS;
}

struct CUstream_st {
    uint32_t magic;
    struct CUctx_st *context;
    unsigned flags;
    int priority;
    unsigned long long id;
    bool legacy, has_thread, closing;
    bool driven;           /* its items are the driver's (driver.c): the thread keeps off */
    const uint32_t *gate;  /* driven: the closed gate it stands at, and what was last seen there; NULL: none */
    uint32_t gate_seen;
    struct CUstream_st *driven_prev, *driven_next;
    atomic_int capture; /* CUstreamCaptureStatus */
    struct sg_item *head, *tail;
    uint64_t items;        /* in that queue */
    pthread_cond_t wake;
    int64_t end_ns;        /* model clock: end of the work done so far */
    uint64_t kernels;      /* launched so far; numbers their jitter */
    struct CUstream_st *prev, *next;
};

struct CUevent_st {
    uint32_t magic;
    unsigned flags;
    int device;
    struct sg_mark *mark; /* of the latest record; NULL: never recorded */
};

/* With sg_lock: the head item has ended. */
void sg_item_done(struct CUstream_st *stream, int64_t end_ns);

/* --- driver.c: streams without threads (SOFTGPU_UNTIMED) --- */

/* With sg_lock, which is released meanwhile: the stream has a new item. */
void sg_drive(struct CUstream_st *stream);
/* With sg_lock, released meanwhile: until the mark is done. */
void sg_drive_until(struct sg_mark *mark);
/* With sg_lock, released meanwhile: do what can be done now (for hosts that ask again and again). */
void sg_drive_once(void);
/* With sg_lock: something that driven streams may wait for has happened in another thread. */
void sg_drive_again(void);

CUresult sg_stream_create(struct CUctx_st *context, unsigned flags, int priority, struct CUstream_st **stream);
CUresult sg_stream_destroy(struct CUstream_st *stream);
/* The stream a handle means (NULL, legacy and per-thread handles included). */
CUresult sg_stream_resolve(CUstream handle, struct CUstream_st **stream);
/* Enqueue fn(ctx); extra (may be NULL, not consumed) is a mark that it waits for too. If out is not NULL it gets a
 * reference to the item's own mark. */
CUresult sg_enqueue(struct CUstream_st *stream, enum sg_item_kind kind, sg_work_fn fn, void *ctx,
                    struct sg_mark *extra, struct sg_mark **out);
/* The mark of the newest item of stream and of all it is implicitly ordered after; NULL: idle. *end_ns: its end if so. */
CUresult sg_stream_synchronize(struct CUstream_st *stream);
CUresult sg_stream_query(struct CUstream_st *stream);

/* --- gate.c --- */

void sg_queue_block(struct CUctx_st *context);
void sg_queue_unblock(struct CUctx_st *context, int64_t now_ns);
int64_t sg_queue_wait(struct CUctx_st *context, int64_t start_ns); /* until a hardware queue is free */
bool sg_queue_is_free(const struct CUctx_st *context); /* with sg_lock */

/* --- memop.c --- */

/* Goes on with a batch of memory operations, which is freed at its end: true, with the model time in *now_ns. False: it stands at
 * a closed gate, *word, of whose value it saw `seen` (the lower half of a wide one). */
bool sg_gates_step(void *batch, int64_t *now_ns, const uint32_t **word, uint32_t *seen);
/* It stood at a closed gate and still does: sg_gates_step would change nothing. */
bool sg_gates_closed(const void *batch);

/* --- ranges.c: what the process's addresses are --- */

enum sg_range_kind {
    SG_RANGE_DEVICE,     /* cuMemAlloc */
    SG_RANGE_HOST,       /* cuMemHostAlloc */
    SG_RANGE_REGISTERED, /* cuMemHostRegister */
    SG_RANGE_MANAGED,
    SG_RANGE_RESERVED,   /* cuMemAddressReserve */
    SG_RANGE_MAPPED,     /* cuMemMap, inside a reserved one */
    SG_RANGE_POOL,       /* cuMemAllocAsync */
};

struct sg_range {
    uintptr_t base;
    size_t size;
    size_t requested; /* what the program asked for; size is what it got */
    enum sg_range_kind kind;
    int device;
    unsigned flags;  /* of host memory; of a mapping: the PROT_* bits it has */
    void *owner; /* allocation, physical memory or pool block */
    unsigned long long id;
};

CUresult sg_range_add(const struct sg_range *range);      /* OUT_OF_MEMORY; INVALID_VALUE if it overlaps its kind */
bool sg_range_find(uintptr_t address, struct sg_range *range); /* innermost range that holds address */
bool sg_range_find_kind(uintptr_t address, enum sg_range_kind kind, struct sg_range *range);
bool sg_range_remove(uintptr_t base, enum sg_range_kind kind, struct sg_range *range);
bool sg_range_set_flags(uintptr_t base, enum sg_range_kind kind, unsigned flags);
bool sg_range_overlaps(uintptr_t base, size_t size, enum sg_range_kind kind);
bool sg_address_is_device(uintptr_t address, int *device);
bool sg_address_is_pinned(uintptr_t address); /* host memory that CUDA knows */

/* --- memory.c --- */

/* A piece of device memory: accounted, mapped, not yet in the list of ranges. */
struct sg_piece {
    void *base;
    size_t size; /* at least what was asked for: multiples of 512 bytes, above 1 MiB of 2 MiB */
    int device;
    struct sg_block *block; /* which it shares; NULL: it has blocks of its own */
};

CUresult sg_memory_take(int device, size_t bytes, struct sg_piece *piece);
void sg_memory_give(const struct sg_piece *piece);
CUresult sg_memory_alloc(struct CUctx_st *context, size_t bytes, void **pointer);
CUresult sg_memory_free(void *pointer); /* does not synchronise */
/* Device memory in whole blocks: accounted and mapped. */
CUresult sg_blocks_take(int device, size_t bytes);
void sg_blocks_give(int device, size_t bytes);
void *sg_map_lazily(size_t bytes); /* 2 MiB aligned, no memory until touched; NULL: none */

/* --- pool.c --- */

void sg_pool_trim_device(int device); /* give back what pools keep unused */
CUmemoryPool sg_pool_of(const struct sg_range *range);

/* --- copy.c --- */

/* Model time of moving bytes from source to destination. */
int64_t sg_copy_ns(uintptr_t destination, uintptr_t source, size_t bytes);
int64_t sg_fill_ns(size_t bytes);

#define SG_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
