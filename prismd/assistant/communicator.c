#include "prismd/assistant/communicator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "coll/plan.h"
#include "common/error.h"
#include "prismd/assistant/answer.h"
#include "prismd/assistant/gpu.h"
#include "prismd/assistant/ring.h"
#include "prismd/assistant/shelf.h"
#include "proto/region.h"

struct queued {
    struct order_header *order; /* owned */
    struct queued *next;
};

struct redop {
    struct {
        uint64_t datatype, scalar;
    } key;
    ncclRedOp_t real;
    UT_hash_handle hh;
};

struct communicator {
    uint32_t number;
    struct order_create made; /* as it was ordered */
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct queued *head, *tail;
    ncclComm_t comm;
    CUstream stream;
    struct ring *ring;
    struct shelf *shelf;
    struct gpu_buffer scratch;
    struct redop *redops; /* hash */
    uint32_t gate;
    CUevent began, ended; /* of runs with a tag */
    UT_hash_handle hh;
};

static struct communicator *communicators; /* of the thread that reads orders */
static struct payload_reader *payloads;
static struct order_shared *shared;
static CUdeviceptr gates; /* shared->go as the device sees it; with the first gate */

void communicator_init(struct payload_reader *reader, struct order_shared *memory)
{
    payloads = reader;
    shared = memory;
}

/* --- the communicator's thread --- */

static void map_gates(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!gates) {
        GPU_MUST(gpu_cu(cuMemHostRegister)(shared->go, sizeof *shared - offsetof(struct order_shared, go),
                                           CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
        GPU_MUST(gpu_cu(cuMemHostGetDevicePointer)(&gates, shared->go, 0));
    }
    pthread_mutex_unlock(&lock);
}

static void create(struct communicator *c, const struct order_create *o)
{
    ncclUniqueId id;
    gpu_open_nccl((const char *)(o + 1));
    GPU_NCCL_MUST(gpu_nccl(GetUniqueId)(&id));
    answer_id(c->number, (const uint8_t *)id.internal);
    if (o->rank < 0) {
        answer_done(c->number);
        return;
    }
    GPU_MUST(gpu_cu(cuStreamCreate)(&c->stream, CU_STREAM_NON_BLOCKING));
    c->gate = o->gate;
    map_gates();
    GPU_MUST(gpu_cu(cuEventCreate)(&c->began, CU_EVENT_DEFAULT));
    GPU_MUST(gpu_cu(cuEventCreate)(&c->ended, CU_EVENT_DEFAULT));
    c->ring = ring_create(payloads, &shared->counts);
    c->shelf = shelf_create();
    GPU_NCCL_MUST(gpu_nccl(CommInitRank)(&c->comm, o->size, id, o->rank));
    answer_done(c->number);
}

static ncclRedOp_t redop_of(struct communicator *c, const struct order_call *call)
{
    if (call->redop != COLL_REDOP_PREMUL)
        return (ncclRedOp_t)call->redop;
    struct redop *r, wanted = {.key = {(uint64_t)call->datatype, call->scalar}};
    HASH_FIND(hh, c->redops, &wanted.key, sizeof wanted.key, r);
    if (r)
        return r->real;
    r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->key = wanted.key;
    uint64_t scalar = call->scalar;
    GPU_NCCL_MUST(gpu_nccl(RedOpCreatePreMulSum)(&r->real, &scalar, (ncclDataType_t)call->datatype,
                                                 ncclScalarHostImmediate, c->comm));
    HASH_ADD(hh, c->redops, key, sizeof r->key, r);
    return r->real;
}

static void *address(const struct communicator *c, CUdeviceptr payload, uint8_t buffer, uint64_t offset)
{
    if (buffer == COLL_BUFFER_PAYLOAD && payload)
        return (void *)(uintptr_t)(payload + offset);
    /* A message without bytes still wants an address. */
    return buffer == COLL_BUFFER_NONE ? NULL : (void *)(uintptr_t)(c->scratch.device + offset);
}

static void issue(struct communicator *c, const struct order_call *call, CUdeviceptr payload)
{
    const void *from = address(c, payload, call->from_buffer, call->from);
    void *to = address(c, payload, call->to_buffer, call->to);
    ncclDataType_t type = (ncclDataType_t)call->datatype;
    cudaStream_t stream = (cudaStream_t)c->stream;
    switch (call->kind) {
    case COLL_CALL_ALLREDUCE:
        GPU_NCCL_MUST(gpu_nccl(AllReduce)(from, to, call->count, type, redop_of(c, call), c->comm, stream));
        break;
    case COLL_CALL_REDUCE:
        GPU_NCCL_MUST(
            gpu_nccl(Reduce)(from, to, call->count, type, redop_of(c, call), call->peer, c->comm, stream));
        break;
    case COLL_CALL_BROADCAST:
        GPU_NCCL_MUST(
            gpu_nccl(Broadcast)(from ? from : to, to, call->count, type, call->peer, c->comm, stream));
        break;
    case COLL_CALL_SEND:
        GPU_NCCL_MUST(gpu_nccl(Send)(from, call->count, type, call->peer, c->comm, stream));
        break;
    case COLL_CALL_RECV:
        GPU_NCCL_MUST(gpu_nccl(Recv)(to, call->count, type, call->peer, c->comm, stream));
        break;
    default:
        answer_failed(PRISM_EXIT_DAEMON, "malformed order: call %u", call->kind);
    }
}

/* The calls are on the stream, behind the gate. */
static void time_run(struct communicator *c, const struct order_run *o)
{
    float ms = 0;
    GPU_MUST(gpu_cu(cuEventRecord)(c->ended, c->stream));
    if (o->generation)
        region_word_set(&shared->go[c->gate], o->generation);
    GPU_MUST(gpu_cu(cuEventSynchronize)(c->ended));
    GPU_MUST(gpu_cu(cuEventElapsedTime)(&ms, c->began, c->ended));
    answer_time(c->number, o->tag, (int64_t)((double)ms * 1e6));
}

static void run(struct communicator *c, const struct order_run *o)
{
    const struct order_call *calls = order_calls(o);
    uint64_t scratch = o->scratch_bytes ? o->scratch_bytes : 1;
    gpu_buffer_grow(&c->scratch, scratch);
    struct ring_place *place = NULL;
    CUdeviceptr payload = shelf_find(c->shelf, o);
    if (payload) {
        ring_count_kept(c->ring, o->payload_bytes);
    } else if (o->payload_bytes) {
        place = ring_take(c->ring, o, c->stream);
        payload = ring_address(place);
        shelf_put(c->shelf, o, payload, c->stream);
    }
    bool timed = o->tag != ORDER_NO_TAG;
    if (o->generation)
        GPU_MUST(gpu_cu(cuStreamWaitValue32)(c->stream, gates + c->gate * sizeof *shared->go, o->generation,
                                             CU_STREAM_WAIT_VALUE_GEQ));
    if (timed)
        GPU_MUST(gpu_cu(cuEventRecord)(c->began, c->stream));
    GPU_NCCL_MUST(gpu_nccl(GroupStart)());
    for (uint32_t i = 0; i < o->ncalls; i++)
        issue(c, &calls[i], payload);
    GPU_NCCL_MUST(gpu_nccl(GroupEnd)());
    if (timed)
        time_run(c, o);
    if (place)
        ring_give(c->ring, place, c->stream);
    __atomic_fetch_add(&shared->counts.runs, 1, __ATOMIC_RELAXED);
}

static void destroy(struct communicator *c)
{
    struct redop *r, *next;
    if (c->comm) {
        GPU_NCCL_MUST(gpu_nccl(CommDestroy)(c->comm));
        GPU_MUST(gpu_cu(cuStreamSynchronize)(c->stream));
        ring_destroy(c->ring);
        shelf_destroy(c->shelf);
        if (c->scratch.device)
            GPU_MUST(gpu_cu(cuMemFree)(c->scratch.device));
        GPU_MUST(gpu_cu(cuEventDestroy)(c->began));
        GPU_MUST(gpu_cu(cuEventDestroy)(c->ended));
        GPU_MUST(gpu_cu(cuStreamDestroy)(c->stream));
    }
    HASH_ITER(hh, c->redops, r, next)
    {
        HASH_DEL(c->redops, r);
        free(r);
    }
    answer_done(c->number);
    free(c);
}

static struct order_header *next_order(struct communicator *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->head)
        pthread_cond_wait(&c->came, &c->lock);
    struct queued *q = c->head;
    c->head = q->next;
    if (!c->head)
        c->tail = NULL;
    pthread_mutex_unlock(&c->lock);
    struct order_header *order = q->order;
    free(q);
    return order;
}

static void *work(void *arg)
{
    struct communicator *c = arg;
    gpu_use();
    for (bool over = false; !over;) {
        struct order_header *o = next_order(c);
        if (o->type == ORDER_CREATE)
            create(c, (const struct order_create *)o);
        else if (o->type == ORDER_FORESEE && !shelf_find(c->shelf, (const struct order_run *)o))
            ring_foresee(c->ring, (const struct order_run *)o);
        else if (o->type == ORDER_RUN)
            run(c, (const struct order_run *)o);
        else if (o->type == ORDER_DESTROY)
            over = true;
        free(o);
    }
    destroy(c);
    return NULL;
}

/* --- the thread that reads orders --- */

static struct communicator *begin(const struct order_create *o)
{
    struct communicator *c = calloc(1, sizeof *c);
    pthread_t thread;
    if (!c)
        abort();
    c->number = o->h.communicator;
    c->made = *o;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->came, NULL);
    HASH_ADD(hh, communicators, number, sizeof c->number, c);
    if (pthread_create(&thread, NULL, work, c) || pthread_detach(thread))
        answer_failed(PRISM_EXIT_SYSTEM, "cannot start a thread");
    return c;
}

void communicator_order(struct order_header *order)
{
    struct communicator *c;
    HASH_FIND(hh, communicators, &order->communicator, sizeof order->communicator, c);
    const char *fault = order_fault(order, c ? &c->made : NULL);
    if (fault)
        answer_failed(PRISM_EXIT_DAEMON, "malformed order %u for communicator %u: %s", order->type, order->communicator, fault);
    if (!c)
        c = begin((const struct order_create *)order);
    struct queued *q = calloc(1, sizeof *q);
    if (!q)
        abort();
    q->order = order;
    if (order->type == ORDER_DESTROY) /* the thread frees it */
        HASH_DEL(communicators, c);
    pthread_mutex_lock(&c->lock);
    if (c->tail)
        c->tail->next = q;
    else
        c->head = q;
    c->tail = q;
    pthread_cond_signal(&c->came);
    pthread_mutex_unlock(&c->lock);
}
