#include "groups.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool running, stop;
    int seconds;
} watchdog = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static const char *const kind_names[GROUP_KINDS] = {"world",         "tensor",      "data",
                                                    "expert",        "expert-data", "forward-even",
                                                    "backward-even", "forward-odd", "backward-odd"};

static void set_edge(struct groups *groups, const struct layout *l, int edge)
{
    struct group group = {
        .size = 2, .rank = l->pp_rank - edge, .first = layout_rank_of(l, edge, l->dp_rank, l->tp_rank)};
    groups->of[edge % 2 ? GROUP_FORWARD_ODD : GROUP_FORWARD_EVEN] = group;
    groups->of[edge % 2 ? GROUP_BACKWARD_ODD : GROUP_BACKWARD_EVEN] = group;
}

static void set_members(struct groups *groups, const struct layout *l)
{
    groups->of[GROUP_WORLD] = (struct group){l->world, l->rank, 0, NULL};
    groups->of[GROUP_TENSOR] =
        (struct group){l->tp, l->tp_rank, layout_rank_of(l, l->pp_rank, l->dp_rank, 0), NULL};
    groups->of[GROUP_DATA] =
        (struct group){l->dp, l->dp_rank, layout_rank_of(l, l->pp_rank, 0, l->tp_rank), NULL};
    groups->of[GROUP_EXPERT] = (struct group){
        l->ep, l->ep_rank, layout_rank_of(l, l->pp_rank, l->edp_rank * l->ep, l->tp_rank), NULL};
    groups->of[GROUP_EXPERT_DATA] =
        (struct group){l->edp, l->edp_rank, layout_rank_of(l, l->pp_rank, l->ep_rank, l->tp_rank), NULL};
    if (l->pp_rank > 0)
        set_edge(groups, l, l->pp_rank - 1);
    if (l->pp_rank < l->pp - 1)
        set_edge(groups, l, l->pp_rank);
    bool odd = l->pp_rank % 2;
    groups->forward_next = &groups->of[odd ? GROUP_FORWARD_ODD : GROUP_FORWARD_EVEN];
    groups->backward_next = &groups->of[odd ? GROUP_BACKWARD_ODD : GROUP_BACKWARD_EVEN];
    groups->forward_previous = &groups->of[odd ? GROUP_FORWARD_EVEN : GROUP_FORWARD_ODD];
    groups->backward_previous = &groups->of[odd ? GROUP_BACKWARD_EVEN : GROUP_BACKWARD_ODD];
}

static struct group *group_at(struct groups *groups, int index)
{
    return index < GROUP_KINDS ? &groups->of[index] : &groups->waiting[index - GROUP_KINDS];
}

static void key_of(const struct group *group, int index, char *key, size_t size)
{
    if (index < GROUP_KINDS)
        snprintf(key, size, "moetrain/%s/%d", kind_names[index], group->first);
    else
        snprintf(key, size, "moetrain/wait-%d", index - GROUP_KINDS);
}

static void publish_id(struct bootstrap *bootstrap, const struct group *group, int index)
{
    ncclUniqueId id;
    char key[64];
    if (group->size < 2 || group->rank != 0)
        return;
    NCCL_CHECK(ncclGetUniqueId(&id));
    key_of(group, index, key, sizeof key);
    bootstrap_publish(bootstrap, key, &id, sizeof id);
}

static void join(struct bootstrap *bootstrap, struct group *group, int index)
{
    ncclUniqueId id;
    char key[64];
    if (group->size < 2)
        return;
    key_of(group, index, key, sizeof key);
    bootstrap_fetch(bootstrap, key, group->first, &id, sizeof id);
    NCCL_CHECK(ncclCommInitRank(&group->comm, group->size, id, group->rank));
}

/* Whether any rank of the world is in a group of the kind that has peers: all ranks must agree on calling
 * split. */
static bool kind_exists(const struct layout *l, int index)
{
    switch (index) {
    case GROUP_TENSOR:
        return l->tp > 1;
    case GROUP_DATA:
        return l->dp > 1;
    case GROUP_EXPERT:
        return l->ep > 1;
    case GROUP_EXPERT_DATA:
        return l->edp > 1;
    case GROUP_FORWARD_EVEN:
    case GROUP_BACKWARD_EVEN:
        return l->pp > 1;
    case GROUP_FORWARD_ODD:
    case GROUP_BACKWARD_ODD:
        return l->pp > 2;
    default:
        return l->world > 1;
    }
}

static void split(struct groups *groups, const struct layout *layout, struct group *group, int index)
{
    if (!kind_exists(layout, index))
        return;
    int color = group->size < 2 ? NCCL_SPLIT_NOCOLOR : group->first;
    NCCL_CHECK(ncclCommSplit(groups->of[GROUP_WORLD].comm, color, group->rank, &group->comm, NULL));
}

void groups_check(const struct groups *groups)
{
    for (int i = 0; i < GROUP_KINDS + groups->waiting_count; i++) {
        const struct group *group = i < GROUP_KINDS ? &groups->of[i] : &groups->waiting[i - GROUP_KINDS];
        ncclResult_t error = ncclSuccess;
        if (!group->comm)
            continue;
        NCCL_CHECK(ncclCommGetAsyncError(group->comm, &error));
        if (error != ncclSuccess && error != ncclInProgress) {
            const char *last = ncclGetLastError(group->comm);
            die("asynchronous NCCL error %d (%s) in the %s group%s%s", (int)error, ncclGetErrorString(error),
                i < GROUP_KINDS ? kind_names[i] : "waiting", last && *last ? ": " : "", last ? last : "");
        }
    }
}

static void *watch(void *argument)
{
    const struct groups *groups = argument;
    struct timespec next;
    clock_gettime(CLOCK_REALTIME, &next);
    pthread_mutex_lock(&watchdog.mutex);
    while (!watchdog.stop) {
        next.tv_sec += watchdog.seconds;
        while (!watchdog.stop && pthread_cond_timedwait(&watchdog.wake, &watchdog.mutex, &next) == 0)
            ;
        if (!watchdog.stop)
            groups_check(groups);
    }
    pthread_mutex_unlock(&watchdog.mutex);
    return NULL;
}

void groups_watch(struct groups *groups, int seconds)
{
    if (seconds < 1 || !groups->of[GROUP_WORLD].comm)
        return;
    watchdog.seconds = seconds;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    if (pthread_create(&watchdog.thread, &attributes, watch, groups) != 0)
        die("cannot start the watchdog thread");
    pthread_attr_destroy(&attributes);
    watchdog.running = true;
}

void groups_create(struct groups *groups, const struct layout *layout, struct bootstrap *bootstrap,
                   bool use_split, int waiting)
{
    memset(groups, 0, sizeof *groups);
    groups->waiting = calloc((size_t)waiting + 1, sizeof *groups->waiting);
    if (!groups->waiting)
        die("out of host memory");
    set_members(groups, layout);
    groups->waiting_count = waiting;
    for (int i = 0; i < waiting; i++)
        groups->waiting[i] = groups->of[GROUP_WORLD];
    if (layout->world < 2)
        return;
    int by_id = use_split ? 1 : GROUP_KINDS + waiting;
    for (int i = 0; i < by_id; i++)
        publish_id(bootstrap, group_at(groups, i), i);
    bootstrap_exchange(bootstrap);
    for (int i = 0; i < by_id; i++)
        join(bootstrap, group_at(groups, i), i);
    for (int i = by_id; i < GROUP_KINDS + waiting; i++)
        split(groups, layout, group_at(groups, i), i);
}

void groups_destroy(struct groups *groups)
{
    if (watchdog.running) {
        pthread_mutex_lock(&watchdog.mutex);
        watchdog.stop = true;
        pthread_cond_signal(&watchdog.wake);
        pthread_mutex_unlock(&watchdog.mutex);
        pthread_join(watchdog.thread, NULL);
        watchdog.running = false;
    }
    for (int i = GROUP_KINDS + groups->waiting_count - 1; i >= 0; i--)
        if (group_at(groups, i)->comm)
            NCCL_CHECK(ncclCommDestroy(group_at(groups, i)->comm));
    free(groups->waiting);
    groups->waiting = NULL;
}

static void all_reduce(const struct group *group, void *values, size_t count, ncclDataType_t type,
                       ncclRedOp_t op, cudaStream_t stream)
{
    if (group->size > 1)
        NCCL_CHECK(ncclAllReduce(values, values, count, type, op, group->comm, stream));
}

void group_sum(const struct group *group, real *values, size_t count, cudaStream_t stream)
{
    all_reduce(group, values, count, NCCL_REAL, ncclSum, stream);
}

void group_sum_doubles(const struct group *group, double *values, size_t count, cudaStream_t stream)
{
    all_reduce(group, values, count, ncclFloat64, ncclSum, stream);
}

void group_max(const struct group *group, real *values, size_t count, cudaStream_t stream)
{
    all_reduce(group, values, count, NCCL_REAL, ncclMax, stream);
}
