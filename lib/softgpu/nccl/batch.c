/* batch.c - operations on streams: each group's operations of one communicator are one batch. The batch
 * begins when all its streams have come to it and the communicator's batch before it has ended (NCCL's own
 * order of kernels); the last stream to come posts it to the hub, waits for the answer and delivers the
 * results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "softgpu/nccl/comm.h"
#include "softgpu/nccl/reduce.h"
#include "softgpu/nccl/types.h"

#define ARENA_KEEP (64ull << 20) /* memory an idle arena may keep */

struct batch {
    struct batch *next; /* posted */
    struct ncclComm *comm;
    struct work *works;
    uint32_t count;
    int streams, arrived, leaving;
    uint64_t order, id;
    int64_t start_ns, end_ns;
    bool answered, finished;
    struct sgn_answer answer;
    uint8_t *body; /* owned: the answer with its payload */
    uint64_t arena_offset, arena_bytes;
    bool in_arena;
    struct sgn_doorbell *doorbell; /* in the arena, at the start of the batch's block */
    uint8_t *staging;              /* owned: payload to send where there is no arena */
};

/* --- the arena: first fit among the blocks in use --- */

struct arena_block {
    struct arena_block *next;
    uint64_t offset, bytes;
};

static bool arena_take(struct ncclComm *comm, uint64_t bytes, uint64_t *offset)
{
    struct arena_block **at = &comm->blocks, *block = malloc(sizeof(*block));
    uint64_t free_from = 0;
    while (*at && (*at)->offset - free_from < bytes) {
        free_from = (*at)->offset + (*at)->bytes;
        at = &(*at)->next;
    }
    if (!block || bytes > SGN_ARENA_BYTES || free_from > SGN_ARENA_BYTES - bytes) {
        free(block);
        return false;
    }
    *block = (struct arena_block){*at, free_from, bytes};
    *at = block;
    if (free_from + bytes > comm->arena_high)
        comm->arena_high = free_from + bytes;
    *offset = free_from;
    return true;
}

static void arena_give(struct ncclComm *comm, uint64_t offset)
{
    struct arena_block **at = &comm->blocks;
    while (*at && (*at)->offset != offset)
        at = &(*at)->next;
    if (!*at)
        return;
    struct arena_block *block = *at;
    *at = block->next;
    free(block);
    if (!comm->blocks && comm->arena_high > ARENA_KEEP) {
        madvise((char *)comm->arena + ARENA_KEEP, comm->arena_high - ARENA_KEEP, MADV_REMOVE);
        comm->arena_high = ARENA_KEEP;
    }
}

/* --- payload --- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + SGN_ALIGN - 1) / SGN_ALIGN * SGN_ALIGN;
}

/* Offsets of every task's input and output from the start of the two regions; their sizes. */
static void lay_out(struct batch *batch, uint64_t *in_bytes, uint64_t *out_bytes)
{
    *in_bytes = *out_bytes = 0;
    for (struct work *work = batch->works; work; work = work->next) {
        work->task.in_offset = *in_bytes;
        work->task.out_offset = *out_bytes;
        *in_bytes += aligned(work->task.in_bytes);
        *out_bytes += aligned(work->task.out_bytes);
    }
}

static void copy_in(const struct work *work, void *to)
{
    const struct sgn_task *task = &work->task;
    size_t elements = task->in_bytes / sgn_datatype_size(task->datatype);
    uint8_t factor[8];
    if (!task->in_bytes)
        return;
    if (work->scales) {
        sgn_scale(to, work->in, elements, task->datatype,
                  work->scalar.on_device ? work->scalar.pointer : work->scalar.value);
    } else if (sgn_kind_reduces(task->kind) && task->redop == ncclAvg &&
               sgn_datatype_is_float(task->datatype)) {
        sgn_inverse(factor, task->datatype, work->comm->ranks);
        sgn_scale(to, work->in, elements, task->datatype, factor);
    } else {
        memcpy(to, work->in, task->in_bytes);
    }
}

static void copy_out(struct batch *batch)
{
    const uint8_t *base = batch->in_arena ? batch->comm->arena : batch->body + sizeof(struct sgn_answer);
    for (struct work *work = batch->works; work; work = work->next) {
        const struct sgn_task *task = &work->task;
        if (task->out_bytes)
            memcpy(work->out, base + task->out_offset, task->out_bytes);
        else if (task->kind == SGN_BROADCAST && work->out != work->in)
            memmove(work->out, work->in, task->in_bytes);
    }
}

static uint8_t *prepare_arena(struct batch *batch, uint64_t in_bytes, uint64_t out_bytes)
{
    struct ncclComm *comm = batch->comm;
    uint64_t bell = aligned(sizeof(struct sgn_doorbell));
    if (!comm->arena)
        return NULL;
    pthread_mutex_lock(&comm->lock);
    batch->in_arena = arena_take(comm, bell + aligned(in_bytes + out_bytes), &batch->arena_offset);
    if (batch->in_arena) {
        batch->doorbell = (struct sgn_doorbell *)(void *)((char *)comm->arena + batch->arena_offset);
        atomic_store(&batch->doorbell->ring, SGN_QUIET);
    }
    pthread_mutex_unlock(&comm->lock);
    if (!batch->in_arena)
        return NULL;
    for (struct work *work = batch->works; work; work = work->next) {
        work->task.in_offset += batch->arena_offset + bell;
        work->task.out_offset += batch->arena_offset + bell + in_bytes;
    }
    return comm->arena;
}

/* Send the batch to the hub. Returns -1 if that cannot be done. */
static int post(struct batch *batch)
{
    uint64_t in_bytes, out_bytes;
    lay_out(batch, &in_bytes, &out_bytes);
    uint8_t *base = prepare_arena(batch, in_bytes, out_bytes);
    if (!base && batch->comm->arena)
        return -1; /* more than 16 GiB at once */
    if (!base)
        base = batch->staging = malloc(in_bytes + 1);
    struct sgn_task *tasks = malloc(batch->count * sizeof(*tasks));
    if (!base || !tasks) {
        free(tasks);
        return -1;
    }
    int i = 0;
    for (const struct work *work = batch->works; work; work = work->next) {
        tasks[i++] = work->task;
        copy_in(work, base + work->task.in_offset);
    }
    struct sgn_batch head = {.id = batch->id,
                             .start_ns = batch->start_ns,
                             .tasks = batch->count,
                             .out_bytes = batch->in_arena ? 0 : out_bytes,
                             .doorbell = batch->arena_offset};
    struct sgn_part parts[] = {{&head, sizeof(head)},
                               {tasks, batch->count * sizeof(*tasks)},
                               {batch->staging, batch->in_arena ? 0 : in_bytes}};
    int result = sgn_comm_send(batch->comm, SGN_BATCH, parts, 3);
    free(tasks);
    return result;
}

/* --- running --- */

static int64_t real_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void remove_posted(struct ncclComm *comm, const struct batch *batch)
{
    struct batch **at = &comm->posted;
    while (*at && *at != batch)
        at = &(*at)->next;
    if (*at)
        *at = batch->next;
}

/* Posted; wait for the answer or the end of the communicator. Called and returns with comm->lock held. */
static void await(struct batch *batch)
{
    struct ncclComm *comm = batch->comm;
    if (batch->in_arena && !sgn_comm_broken(comm)) {
        pthread_mutex_unlock(&comm->lock);
        batch->answered = sgn_doorbell_wait(batch->doorbell) == SGN_ANSWERED;
        pthread_mutex_lock(&comm->lock);
        batch->answer.begin_ns = batch->doorbell->begin_ns;
        batch->answer.end_ns = batch->doorbell->end_ns;
    }
    while (!batch->in_arena && !batch->answered && !sgn_comm_broken(comm))
        pthread_cond_wait(&comm->changed, &comm->lock);
}

void sgn_batch_give_up(struct ncclComm *comm)
{
    for (struct batch *batch = comm->posted; batch; batch = batch->next)
        if (batch->doorbell)
            sgn_doorbell_ring(batch->doorbell, SGN_GIVEN_UP);
}

/* The last stream has come. Called and returns with comm->lock held. */
static void execute(struct batch *batch)
{
    struct ncclComm *comm = batch->comm;
    bool ordered = sgn_model()->ordered;
    while (ordered && comm->serving != batch->order && !sgn_comm_broken(comm))
        pthread_cond_wait(&comm->changed, &comm->lock);
    if (ordered && comm->last_end_ns > batch->start_ns)
        batch->start_ns = comm->last_end_ns;
    batch->end_ns = batch->start_ns;
    if (!sgn_comm_broken(comm)) {
        batch->id = comm->next_id++;
        batch->next = comm->posted;
        comm->posted = batch;
        pthread_mutex_unlock(&comm->lock);
        int posted = post(batch);
        pthread_mutex_lock(&comm->lock);
        if (posted && !sgn_comm_broken(comm))
            sgn_comm_fail_locked(comm, ncclSystemError,
                                 "an operation could not be posted: out of memory, or the process "
                                 "that serves the communicator is gone");
        await(batch);
        remove_posted(comm, batch);
    }
    if (batch->answered) {
        batch->end_ns = batch->answer.end_ns;
        pthread_mutex_unlock(&comm->lock);
        sg_device_comm_active(comm->device, batch->answer.begin_ns, batch->end_ns);
        copy_out(batch);
        pthread_mutex_lock(&comm->lock);
    } else if (real_now() > batch->end_ns) {
        batch->end_ns = real_now(); /* failed: the stream goes on now */
    }
    if (batch->in_arena)
        arena_give(comm, batch->arena_offset);
    comm->serving = batch->order + 1;
    if (batch->end_ns > comm->last_end_ns)
        comm->last_end_ns = batch->end_ns;
    comm->outstanding--;
    batch->finished = true;
    pthread_cond_broadcast(&comm->changed);
}

static void batch_free(struct batch *batch)
{
    while (batch->works) {
        struct work *next = batch->works->next;
        free(batch->works);
        batch->works = next;
    }
    free(batch->body);
    free(batch->staging);
    free(batch);
}

static int64_t run(void *context, int64_t start_ns)
{
    struct batch *batch = context;
    struct ncclComm *comm = batch->comm;
    pthread_mutex_lock(&comm->lock);
    if (start_ns > batch->start_ns)
        batch->start_ns = start_ns;
    if (++batch->arrived == batch->streams)
        execute(batch);
    /* After a failure or an abort nobody waits for streams that have not come yet. */
    while (!batch->finished && !(sgn_comm_broken(comm) && batch->arrived < batch->streams))
        pthread_cond_wait(&comm->changed, &comm->lock);
    int64_t end = batch->finished ? batch->end_ns : real_now();
    end = end > start_ns ? end : start_ns;
    bool last = ++batch->leaving == batch->streams;
    pthread_mutex_unlock(&comm->lock);
    if (last) {
        batch_free(batch);
        sgn_comm_unref(comm);
    }
    return end;
}

void sgn_batch_answered(struct ncclComm *comm, uint8_t **body, size_t bytes)
{
    struct sgn_answer answer;
    if (bytes < sizeof(answer))
        return;
    memcpy(&answer, *body, sizeof(answer));
    pthread_mutex_lock(&comm->lock);
    struct batch *batch = comm->posted;
    while (batch && batch->id != answer.id)
        batch = batch->next;
    if (batch && !batch->answered) {
        batch->answered = true;
        batch->answer = answer;
        batch->body = *body;
        *body = NULL;
        pthread_cond_broadcast(&comm->changed);
    }
    pthread_mutex_unlock(&comm->lock);
}

/* The different streams of works, each once. Returns their number. */
static int different_streams(const struct work *works, void **streams)
{
    int count = 0;
    for (const struct work *work = works; work; work = work->next) {
        int i = 0;
        while (i < count && streams[i] != work->stream)
            i++;
        if (i == count)
            streams[count++] = work->stream;
    }
    return count;
}

ncclResult_t sgn_batch_launch(struct ncclComm *comm, struct work *works)
{
    uint32_t count = 0;
    for (const struct work *work = works; work; work = work->next)
        count++;
    struct batch *batch = calloc(1, sizeof(*batch));
    void **streams = calloc(count, sizeof(*streams));
    if (!batch || !streams) {
        free(batch);
        free(streams);
        return sgn_error(ncclSystemError, "out of memory while launching %u operations", count);
    }
    *batch = (struct batch){.comm = comm, .works = works, .count = count};
    batch->streams = different_streams(works, streams);
    atomic_fetch_add(&comm->references, 1);
    pthread_mutex_lock(&comm->lock);
    batch->order = comm->issued++;
    comm->outstanding++;
    pthread_mutex_unlock(&comm->lock);
    int error = 0, total = batch->streams; /* the batch may be gone as soon as the last stream has it */
    for (int i = 0; i < total && !error; i++) {
        error = sg_stream_enqueue(streams[i], run, batch);
        if (error && i == 0) { /* nothing was enqueued */
            pthread_mutex_lock(&comm->lock);
            comm->outstanding--;
            comm->issued--;
            pthread_mutex_unlock(&comm->lock);
            batch_free(batch);
            sgn_comm_unref(comm);
        } else if (error) { /* the other streams would wait for ever */
            pthread_mutex_lock(&comm->lock);
            sgn_comm_fail_locked(comm, ncclUnhandledCudaError, "a stream of a group is not valid");
            batch->streams = i;
            if (batch->arrived == i)
                execute(batch);
            pthread_mutex_unlock(&comm->lock);
        }
    }
    free(streams);
    return error ? sgn_error(ncclUnhandledCudaError,
                             "the stream of an operation is not valid (CUDA error %d)", error)
                 : ncclSuccess;
}
