/* hub_match.c - what ranks post: collectives meet by order in the communicator, messages by (source,
 * destination, order). A batch is answered when each of its tasks has an end; input that is needed longer has
 * been copied by then. */
#include "softgpu/nccl/hub_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/nccl/types.h"

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

/* Sizes and times are added and multiplied below: nothing near where they would wrap is taken. */
#define BYTES_MAX (1ull << 40) /* of an operation's whole, and of an answer */
#define START_MAX (INT64_MAX / 2)

/* A send or receive that has not met its other half. */
struct hub_message {
    struct hub_message *next;
    struct hub_batch *batch; /* NULL: an eager send that was answered */
    struct sgn_task task;
    int64_t start_ns, arrival_ns; /* arrival: of an eager send */
    uint8_t *copy;                /* owned: of an eager send */
};

struct hub_queue {
    struct hub_message *sends, *receives;
    uint64_t sent; /* numbers the pair's messages */
};

/* --- batches --- */

static void batch_free(struct hub_batch *batch)
{
    struct hub_member *member = &batch->comm->members[batch->rank];
    if (batch->prev)
        batch->prev->next = batch->next;
    else
        member->batches = batch->next;
    if (batch->next)
        batch->next->prev = batch->prev;
    batch->comm->blocked -= member->batches == NULL;
    free(batch->answer);
    free(batch->body);
    free(batch);
}

static void batch_answer(struct hub_batch *batch)
{
    struct hub_conn *conn = batch->comm->members[batch->rank].conn;
    struct sgn_answer answer = {batch->id, batch->begin_ns, batch->end_ns};
    struct hub_chunk *chunk = batch->answer;
    if (batch->doorbell) {
        batch->doorbell->begin_ns = batch->begin_ns;
        batch->doorbell->end_ns = batch->end_ns;
        sgn_doorbell_ring(batch->doorbell, SGN_ANSWERED);
        batch_free(batch);
        return;
    }
    memcpy(chunk->data + sizeof(struct sgn_frame), &answer, sizeof(answer));
    batch->answer = NULL;
    batch_free(batch);
    if (conn)
        hub_send_chunk(conn, chunk);
    else
        free(chunk);
}

static void task_done(struct hub_batch *batch, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns < batch->begin_ns)
        batch->begin_ns = begin_ns;
    if (end_ns > batch->end_ns)
        batch->end_ns = end_ns;
    batch->remaining--; /* answered by the caller, who may still use it */
}

static bool task_valid(const struct hub_comm *comm, const struct hub_batch *batch,
                       const struct sgn_task *task, bool arena, uint64_t in_limit, uint64_t out_limit)
{
    struct sgn_task check = *task;
    uint64_t size = sgn_datatype_size(task->datatype);
    bool peer = sgn_kind_has_root(task->kind) || task->kind == SGN_SEND || task->kind == SGN_RECV;
    if (task->kind >= SGN_KINDS || !size || task->count > BYTES_MAX / size / (uint64_t)comm->ranks ||
        task->redop < 0 || task->redop > SGN_PREMULSUM || task->in_offset % SGN_ALIGN ||
        task->out_offset % SGN_ALIGN ||
        (peer ? task->peer < 0 || task->peer >= comm->ranks : task->peer != -1))
        return false;
    sgn_task_set_bytes(&check, batch->rank, comm->ranks);
    return check.in_bytes == task->in_bytes && check.out_bytes == task->out_bytes &&
           task->in_bytes <= in_limit && task->in_offset <= in_limit - task->in_bytes &&
           task->out_bytes <= out_limit && task->out_offset <= out_limit - task->out_bytes;
}

static void count_bytes(struct hub_batch *batch, const struct sgn_task *task)
{
    const struct sgn_place *places = batch->comm->places;
    if (task->kind != SGN_SEND && task->kind != SGN_RECV)
        return;
    enum sgn_class class = sgn_link_class(places[batch->rank], places[task->peer]);
    *(task->kind == SGN_SEND ? &batch->egress[class] : &batch->ingress[class]) +=
        task->in_bytes + task->out_bytes;
}

/* NULL: the frame makes no sense. */
static struct hub_batch *batch_create(struct hub_conn *conn, uint8_t *body, size_t bytes)
{
    struct sgn_batch head;
    struct hub_batch *batch = calloc(1, sizeof(*batch));
    struct hub_member *member = &conn->comm->members[conn->rank];
    if (!batch || bytes < sizeof(head))
        goto fail;
    memcpy(&head, body, sizeof(head));
    size_t prefix = sizeof(head) + (size_t)head.tasks * sizeof(struct sgn_task);
    if (head.tasks == 0 || bytes < prefix || head.out_bytes > BYTES_MAX || head.start_ns < 0 ||
        head.start_ns > START_MAX)
        goto fail;
    if (conn->arena && (head.doorbell % SGN_ALIGN || head.doorbell >= SGN_ARENA_BYTES))
        goto fail;
    if (conn->arena)
        batch->doorbell = (struct sgn_doorbell *)(void *)((uint8_t *)conn->arena + head.doorbell);
    else if (!(batch->answer = hub_chunk_create(SGN_ANSWER, sizeof(struct sgn_answer) + head.out_bytes)))
        goto fail;
    batch->comm = conn->comm;
    batch->rank = conn->rank;
    batch->id = head.id;
    batch->count = batch->remaining = head.tasks;
    batch->start_ns = batch->free_ns = batch->end_ns = head.start_ns;
    batch->begin_ns = INT64_MAX;
    batch->tasks = (struct sgn_task *)(void *)(body + sizeof(head));
    batch->in = conn->arena ? conn->arena : body + prefix;
    batch->out = conn->arena ? conn->arena
                             : batch->answer->data + sizeof(struct sgn_frame) + sizeof(struct sgn_answer);
    uint64_t in_limit = conn->arena ? SGN_ARENA_BYTES : bytes - prefix;
    uint64_t out_limit = conn->arena ? SGN_ARENA_BYTES : head.out_bytes;
    for (uint32_t i = 0; i < head.tasks; i++) {
        if (!task_valid(conn->comm, batch, &batch->tasks[i], conn->arena != NULL, in_limit, out_limit))
            goto fail;
        count_bytes(batch, &batch->tasks[i]);
    }
    batch->body = body;
    batch->next = member->batches;
    if (batch->next)
        batch->next->prev = batch;
    conn->comm->blocked += member->batches == NULL;
    member->batches = batch;
    return batch;
fail:
    if (batch)
        free(batch->answer);
    free(batch);
    free(body);
    return NULL;
}

/* Answer those of the communicator's batches that are complete. */
static void answer_complete(struct hub_comm *comm)
{
    for (int r = 0; r < comm->ranks; r++)
        for (struct hub_batch *batch = comm->members[r].batches, *next; batch; batch = next) {
            next = batch->next;
            if (batch->remaining == 0)
                batch_answer(batch);
        }
}

/* --- messages --- */

static void message_free(struct hub_message *message)
{
    free(message->copy);
    free(message);
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void fail_message(struct hub_comm *comm, const struct sgn_task *send, const struct sgn_task *receive)
{
    char name[160], a[160], b[160];
    hub_comm_name(comm, name);
    hub_comm_fail(comm, ncclInvalidUsage,
                  "%s: rank %d calls %s, but rank %d calls %s: count and datatype must agree", name,
                  receive->peer, sgn_task_describe(send, a, sizeof(a)), send->peer,
                  sgn_task_describe(receive, b, sizeof(b)));
}

/* source's send and destination's receive meet. false: they do not agree, the communicator has failed. */
static bool message_meet(struct hub_comm *comm, struct hub_queue *queue, struct hub_message *send,
                         struct hub_message *receive)
{
    int source = receive->task.peer, destination = send->task.peer;
    if (send->task.count != receive->task.count || send->task.datatype != receive->task.datatype) {
        fail_message(comm, &send->task, &receive->task);
        return false;
    }
    const uint8_t *data = send->copy ? send->copy : send->batch->in + send->task.in_offset;
    memmove(receive->batch->out + receive->task.out_offset, data, send->task.in_bytes); /* one arena, to itself */
    if (send->copy) { /* eager: under way or already in the receiver's buffer */
        int64_t copied = receive->start_ns + sgn_model_ns(sgn_model()->launch, comm->seed, queue->sent);
        task_done(receive->batch, receive->start_ns, most((uint64_t)copied, (uint64_t)send->arrival_ns));
        return true;
    }
    int64_t t0 = send->start_ns > receive->start_ns ? send->start_ns : receive->start_ns;
    enum sgn_class class = sgn_link_class(comm->places[source], comm->places[destination]);
    uint64_t bytes = most(send->batch->egress[class], receive->batch->ingress[class]);
    int64_t end = t0 + hub_time_message(comm, source, destination, bytes, queue->sent++, t0);
    task_done(send->batch, t0, end);
    task_done(receive->batch, t0, end);
    return true;
}

static struct hub_queue *queue_of(struct hub_comm *comm, int source, int destination)
{
    if (!comm->pairs[source])
        comm->pairs[source] = calloc((size_t)comm->ranks, sizeof(struct hub_queue));
    return comm->pairs[source] ? &comm->pairs[source][destination] : NULL;
}

static struct hub_message *message_create(struct hub_batch *batch, const struct sgn_task *task)
{
    struct hub_message *message = calloc(1, sizeof(*message));
    if (message)
        *message = (struct hub_message){.batch = batch, .task = *task, .start_ns = batch->start_ns};
    return message;
}

/* An eager send ends by itself: its bytes wait in the receiver's buffer. */
static bool send_eagerly(struct hub_comm *comm, struct hub_queue *queue, struct hub_message *send)
{
    struct hub_batch *batch = send->batch;
    int destination = send->task.peer;
    enum sgn_class class = sgn_link_class(comm->places[batch->rank], comm->places[destination]);
    if (!(send->copy = malloc(send->task.in_bytes + 1)))
        return false;
    memcpy(send->copy, batch->in + send->task.in_offset, send->task.in_bytes);
    send->arrival_ns = send->start_ns + hub_time_message(comm, batch->rank, destination, batch->egress[class],
                                                         queue->sent++, send->start_ns);
    task_done(batch, send->start_ns, send->arrival_ns);
    send->batch = NULL;
    return true;
}

static bool post_message(struct hub_comm *comm, struct hub_batch *batch, const struct sgn_task *task)
{
    bool sends = task->kind == SGN_SEND;
    struct hub_queue *queue =
        sends ? queue_of(comm, batch->rank, task->peer) : queue_of(comm, task->peer, batch->rank);
    struct hub_message *mine = message_create(batch, task);
    if (!queue || !mine ||
        (sends && task->in_bytes <= sgn_model()->eager_bytes && !send_eagerly(comm, queue, mine))) {
        free(mine);
        hub_comm_fail(comm, ncclSystemError, "out of memory for a message of %llu bytes",
                      (unsigned long long)task->count);
        return false;
    }
    struct hub_message **others = sends ? &queue->receives : &queue->sends, *other = *others;
    if (!other) {
        struct hub_message **at = sends ? &queue->sends : &queue->receives;
        while (*at)
            at = &(*at)->next;
        *at = mine;
        return true;
    }
    *others = other->next;
    bool agree = message_meet(comm, queue, sends ? mine : other, sends ? other : mine);
    message_free(mine);
    message_free(other);
    return agree;
}

/* --- collectives --- */

static void coll_remove(struct hub_comm *comm, struct hub_coll *coll)
{
    struct hub_coll **at = &comm->colls;
    while (*at != coll)
        at = &(*at)->next;
    *at = coll->next;
    for (int r = 0; r < comm->ranks; r++)
        free(coll->slots[r].copy);
    free(coll);
}

static struct hub_coll *coll_for(struct hub_comm *comm, uint64_t number, int rank,
                                 const struct sgn_task *task)
{
    struct hub_coll **at = &comm->colls;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        return *at;
    struct hub_coll *coll = calloc(1, sizeof(*coll) + (size_t)comm->ranks * sizeof(coll->slots[0]));
    if (!coll)
        return NULL;
    coll->number = number;
    coll->task = *task;
    coll->first = rank;
    *at = coll;
    return coll;
}

static bool is_eager(const struct hub_comm *comm, const struct sgn_task *task)
{
    return task->count * sgn_datatype_size(task->datatype) <= sgn_model()->eager_bytes;
}

/* Which starts the end of rank's part depends on: everyone's, the root's and its own, its own. */
enum feeds { FEEDS_ALL, FEEDS_ROOT, FEEDS_SELF };

static enum feeds feeds_of(const struct hub_comm *comm, const struct sgn_task *task, int rank)
{
    bool root = rank == task->peer;
    switch (task->kind) {
    case SGN_BROADCAST:
        return root ? FEEDS_SELF : FEEDS_ROOT;
    case SGN_SCATTER:
        return !root ? FEEDS_ROOT : is_eager(comm, task) ? FEEDS_SELF : FEEDS_ALL;
    case SGN_GATHER:
        return root ? FEEDS_ALL : is_eager(comm, task) ? FEEDS_SELF : FEEDS_ROOT;
    default:
        return FEEDS_ALL;
    }
}

static int64_t slot_start(const struct hub_slot *slot)
{
    return slot->done ? slot->start_ns : slot->batch->free_ns;
}

/* Whether rank's part can end, and the latest start that it depends on. */
static bool slot_ready(const struct hub_comm *comm, const struct hub_coll *coll, int rank, int64_t *t0)
{
    const struct hub_slot *slot = &coll->slots[rank],
                          *root = &coll->slots[coll->task.peer < 0 ? 0 : coll->task.peer];
    enum feeds feeds = feeds_of(comm, &coll->task, rank);
    if (!slot->here || slot->done || (feeds == FEEDS_ROOT && !root->here) ||
        (feeds == FEEDS_ALL && coll->arrived < comm->ranks))
        return false;
    *t0 = slot_start(slot);
    if (feeds == FEEDS_ROOT && slot_start(root) > *t0)
        *t0 = slot_start(root);
    for (int r = 0; feeds == FEEDS_ALL && r < comm->ranks; r++)
        if (slot_start(&coll->slots[r]) > *t0)
            *t0 = slot_start(&coll->slots[r]);
    return true;
}

/* Whether others still need the input of rank once its batch is answered. */
static bool input_outlives(const struct hub_comm *comm, const struct hub_coll *coll, int rank)
{
    return coll->arrived < comm->ranks && coll->slots[rank].batch->tasks[coll->slots[rank].task].in_bytes > 0;
}

static bool slot_keep_input(const struct hub_comm *comm, struct hub_coll *coll, int rank)
{
    struct hub_slot *slot = &coll->slots[rank];
    const struct sgn_task *task = &slot->batch->tasks[slot->task];
    if (!(input_outlives(comm, coll, rank) || (task->kind == SGN_GATHER && !coll->slots[task->peer].done)))
        return true;
    if (!(slot->copy = malloc(task->in_bytes + 1)))
        return false;
    memcpy(slot->copy, slot->batch->in + task->in_offset, task->in_bytes);
    return true;
}

struct ending {
    int64_t t0, end;
    bool ends;
};

static void slot_finish(struct hub_comm *comm, struct hub_coll *coll, int rank, const struct ending *ending)
{
    struct hub_slot *slot = &coll->slots[rank];
    struct hub_batch *batch = slot->batch;
    const struct sgn_task *task = &batch->tasks[slot->task];
    slot->start_ns = batch->free_ns;
    batch->free_ns =
        ending->t0 + sgn_model_ns(sgn_model_busy(&comm->ring, task, coll->share), comm->seed, coll->number);
    slot->done = true;
    coll->done++;
    task_done(batch, ending->t0, ending->end);
    slot->batch = NULL; /* it may go away with the answer; input that is needed longer has been copied */
}

/* End the parts that can end. Data first for all, then times, because both look at the other ranks' slots. */
static bool coll_progress(struct hub_comm *comm, struct hub_coll *coll)
{
    int n = comm->ranks;
    struct ending *endings = calloc((size_t)n, sizeof(*endings));
    bool ok = endings != NULL;
    for (int r = 0; ok && r < n; r++) {
        struct ending *ending = &endings[r];
        if (!slot_ready(comm, coll, r, &ending->t0))
            continue;
        const struct sgn_task *task = &coll->slots[r].batch->tasks[coll->slots[r].task];
        hub_time_collective(comm, coll, ending->t0);
        hub_data_collective(comm, coll, r);
        ending->ends = true;
        ending->end = ending->t0 + sgn_model_ns(sgn_model_seconds(&comm->ring, task, r, coll->share),
                                                comm->seed, coll->number);
    }
    for (int r = 0; ok && r < n; r++)
        if (endings[r].ends)
            ok = slot_keep_input(comm, coll, r);
    for (int r = 0; ok && r < n; r++)
        if (endings[r].ends)
            slot_finish(comm, coll, r, &endings[r]);
    free(endings);
    if (!ok)
        hub_comm_fail(comm, ncclSystemError, "out of memory in a collective");
    else if (coll->done == n)
        coll_remove(comm, coll);
    return ok;
}

static bool same_call(const struct sgn_task *a, const struct sgn_task *b)
{
    return a->kind == b->kind && a->datatype == b->datatype && a->redop == b->redop && a->peer == b->peer &&
           a->count == b->count;
}

static bool post_collective(struct hub_comm *comm, struct hub_batch *batch, uint32_t index)
{
    const struct sgn_task *task = &batch->tasks[index];
    uint64_t number = comm->members[batch->rank].collectives++;
    struct hub_coll *coll = coll_for(comm, number, batch->rank, task);
    char name[160], a[160], b[160];
    if (!coll) {
        hub_comm_fail(comm, ncclSystemError, "out of memory in a collective");
        return false;
    }
    if (!same_call(&coll->task, task)) {
        hub_comm_name(comm, name);
        hub_comm_fail(comm, ncclInvalidUsage,
                      "%s, collective %llu: rank %d calls %s, but rank %d calls %s; all ranks must make the "
                      "same calls in "
                      "the same order",
                      name, (unsigned long long)number, coll->first,
                      sgn_task_describe(&coll->task, a, sizeof(a)), batch->rank,
                      sgn_task_describe(task, b, sizeof(b)));
        return false;
    }
    coll->slots[batch->rank] = (struct hub_slot){.here = true, .batch = batch, .task = index};
    coll->arrived++;
    return coll_progress(comm, coll);
}

/* --- ranks that wait for each other, or for one that is gone --- */

static const struct sgn_task *first_open(const struct hub_comm *comm, int rank)
{
    return comm->members[rank].batches->tasks;
}

/* With operations in order each rank has one batch here at a time: if all have one and none can go on, none
 * ever will. */
static void check_deadlock(struct hub_comm *comm)
{
    char name[160], a[160], b[160];
    if (!sgn_model()->ordered || comm->failed || comm->blocked < comm->ranks)
        return;
    int other = 1 % comm->ranks;
    for (int r = 1; r < comm->ranks; r++)
        if (first_open(comm, r)->kind != first_open(comm, 0)->kind)
            other = r;
    hub_comm_name(comm, name);
    hub_comm_fail(comm, ncclInvalidUsage,
                  "%s: all ranks wait for each other: rank 0 in %s, rank %d in %s; the calls do "
                  "not match, or sends and receives need a group",
                  name, sgn_task_describe(first_open(comm, 0), a, sizeof(a)), other,
                  sgn_task_describe(first_open(comm, other), b, sizeof(b)));
}

static bool fail_left(struct hub_comm *comm, int gone, int waiting, const struct sgn_task *task)
{
    char name[160], call[160];
    hub_comm_name(comm, name);
    hub_comm_fail(comm, ncclRemoteError,
                  "%s: rank %d waits in %s for rank %d, which has left the communicator", name, waiting,
                  sgn_task_describe(task, call, sizeof(call)), gone);
    return true;
}

static bool check_messages_left(struct hub_comm *comm, int gone)
{
    for (int r = 0; r < comm->ranks; r++) {
        const struct hub_queue *to = comm->pairs[r] ? &comm->pairs[r][gone] : NULL;
        const struct hub_queue *from = comm->pairs[gone] ? &comm->pairs[gone][r] : NULL;
        for (const struct hub_message *send = to ? to->sends : NULL; send; send = send->next)
            if (send->batch)
                return fail_left(comm, gone, r, &send->task);
        if (from && from->receives)
            return fail_left(comm, gone, r, &from->receives->task);
    }
    return false;
}

void hub_match_check_left(struct hub_comm *comm)
{
    for (int gone = 0; gone < comm->ranks && !comm->failed; gone++) {
        if (!comm->members[gone].left)
            continue;
        for (const struct hub_coll *coll = comm->colls; coll; coll = coll->next)
            if (!coll->slots[gone].here) {
                fail_left(comm, gone, coll->first, &coll->task);
                return;
            }
        if (check_messages_left(comm, gone))
            return;
    }
}

/* --- entry points --- */

void hub_match_post(struct hub_conn *conn, uint8_t *body, size_t bytes)
{
    struct hub_comm *comm = conn->comm;
    if (comm->failed || !comm->ready) { /* the rank has been told, or will be */
        free(body);
        return;
    }
    struct hub_batch *batch = batch_create(conn, body, bytes);
    if (!batch) {
        hub_drop(conn);
        return;
    }
    bool ok = true;
    for (uint32_t i = 0, count = batch->count; ok && i < count; i++) {
        const struct sgn_task *task = &batch->tasks[i];
        ok = task->kind == SGN_SEND || task->kind == SGN_RECV ? post_message(comm, batch, task)
                                                              : post_collective(comm, batch, i);
    }
    if (!ok)
        return; /* failed: everything pending has been dropped, this batch too */
    answer_complete(comm);
    hub_match_check_left(comm);
    check_deadlock(comm);
}

static void drop_messages(struct hub_message **list)
{
    while (*list) {
        struct hub_message *next = (*list)->next;
        message_free(*list);
        *list = next;
    }
}

void hub_match_drop(struct hub_comm *comm)
{
    while (comm->colls)
        coll_remove(comm, comm->colls);
    for (int s = 0; s < comm->ranks; s++)
        for (int d = 0; comm->pairs[s] && d < comm->ranks; d++) {
            drop_messages(&comm->pairs[s][d].sends);
            drop_messages(&comm->pairs[s][d].receives);
        }
    for (int r = 0; r < comm->ranks; r++)
        while (comm->members[r].batches)
            batch_free(comm->members[r].batches);
}
