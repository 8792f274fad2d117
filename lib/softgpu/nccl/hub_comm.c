/* hub_comm.c - who is in a communicator; splits and shrinks; failures. */
#include "softgpu/nccl/hub_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

/* A split or shrink under way: the ranks' colours and keys, until all have come. */
struct hub_round {
    struct hub_round *next;
    bool shrink;
    int need, have;
    uint32_t excluded_count;
    int32_t *excluded;
    struct round_slot {
        bool here;
        struct sgn_control control;
    } slots[]; /* by rank */
};

static struct hub_comm *comms;

static __attribute__((format(printf, 3, 0))) void set_failure(struct sgn_failed *failure, int result, const char *format, va_list args)
{
    failure->result = result;
    vsnprintf(failure->text, sizeof(failure->text), format, args);
}

static __attribute__((format(printf, 3, 4))) void refuse(struct hub_conn *conn, int result,
                                                         const char *format, ...)
{
    struct sgn_failed failure = {0};
    va_list args;
    va_start(args, format);
    set_failure(&failure, result, format, args);
    va_end(args);
    hub_send(conn, SGN_FAILED, &failure, sizeof(failure));
}

void hub_comm_name(const struct hub_comm *comm, char text[160])
{
    const char *name = "";
    for (int r = 0; r < comm->ranks && !*name; r++)
        if (comm->members[r].joined)
            name = comm->members[r].hello.name;
    snprintf(text, 160, "communicator %s%s%s(%d ranks)", *name ? "\"" : "", name, *name ? "\" " : "",
             comm->ranks);
}

void hub_comm_fail(struct hub_comm *comm, int result, const char *format, ...)
{
    va_list args;
    if (comm->failed)
        return;
    comm->failed = true;
    va_start(args, format);
    set_failure(&comm->failure, result, format, args);
    va_end(args);
    hub_match_drop(comm);
    for (int r = 0; r < comm->ranks; r++)
        if (comm->members[r].conn && !comm->members[r].left)
            hub_send(comm->members[r].conn, SGN_FAILED, &comm->failure, sizeof(comm->failure));
}

/* --- joining --- */

static struct hub_comm *comm_create(const struct sgn_hello *hello)
{
    struct hub_comm *comm = calloc(1, sizeof(*comm));
    size_t n = (size_t)hello->ranks;
    if (!comm)
        return NULL;
    comm->serial = hello->serial;
    comm->ranks = hello->ranks;
    comm->members = calloc(n, sizeof(*comm->members));
    comm->places = calloc(n, sizeof(*comm->places));
    comm->pairs = calloc(n, sizeof(*comm->pairs));
    if (!comm->members || !comm->places || !comm->pairs) {
        free(comm->members);
        free(comm->places);
        free(comm->pairs);
        free(comm);
        return NULL;
    }
    uint64_t secret;
    memcpy(&secret, hello->secret, sizeof(secret));
    comm->owner = sgn_mix(secret, hello->serial);
    comm->next = comms;
    comms = comm;
    hub_served(1);
    return comm;
}

static void comm_destroy(struct hub_comm *comm)
{
    struct hub_comm **at = &comms;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    hub_match_drop(comm);
    for (struct hub_round *round = comm->rounds, *next; round; round = next) {
        next = round->next;
        free(round->excluded);
        free(round);
    }
    for (int r = 0; r < comm->ranks; r++)
        free(comm->pairs[r]);
    sgn_ring_free(&comm->ring);
    free(comm->pairs);
    free(comm->places);
    free(comm->members);
    free(comm);
    hub_served(-1);
}

/* Two ranks on one device: NCCL refuses them too, unless they say they are on different hosts. */
static bool check_devices(struct hub_comm *comm)
{
    for (int a = 0; a < comm->ranks; a++)
        for (int b = a + 1; b < comm->ranks; b++) {
            const struct sgn_hello *x = &comm->members[a].hello, *y = &comm->members[b].hello;
            if (x->place.node != y->place.node || x->place.index != y->place.index ||
                x->host_id != y->host_id)
                continue;
            hub_comm_fail(
                comm, ncclInvalidUsage,
                "rank %d (pid %u) and rank %d (pid %u) both use device %d of node %d; give each rank a "
                "device "
                "of its own (cudaSetDevice, CUDA_VISIBLE_DEVICES, SOFTGPU_NODE) or another NCCL_HOSTID",
                a, x->pid, b, y->pid, x->place.index, x->place.node);
            return false;
        }
    return true;
}

static void make_ready(struct hub_comm *comm)
{
    size_t places = (size_t)comm->ranks * sizeof(struct sgn_place);
    uint8_t *body = malloc(sizeof(struct sgn_ready) + places);
    if (!check_devices(comm) || !body || sgn_ring_init(&comm->ring, comm->ranks, comm->places)) {
        if (!comm->failed)
            hub_comm_fail(comm, ncclSystemError, "out of memory while setting up a communicator");
        free(body);
        return;
    }
    comm->seed = sgn_mix((uint64_t)comm->ranks, comm->members[0].hello.number);
    for (int r = 0; r < comm->ranks; r++)
        comm->seed = sgn_mix(comm->seed, (uint64_t)(uint32_t)comm->places[r].node << 32 |
                                             (uint32_t)comm->places[r].index);
    struct sgn_ready ready = {.seed = comm->seed, .ranks = (uint32_t)comm->ranks};
    memcpy(body, &ready, sizeof(ready));
    memcpy(body + sizeof(ready), comm->places, places);
    comm->ready = true;
    for (int r = 0; r < comm->ranks; r++)
        if (comm->members[r].conn)
            hub_send(comm->members[r].conn, SGN_READY, body, sizeof(ready) + places);
    free(body);
}

static struct hub_comm *find_comm(struct hub_conn *conn, const struct sgn_hello *hello)
{
    struct hub_comm *comm = comms;
    while (comm && comm->serial != hello->serial)
        comm = comm->next;
    if (!comm && !(comm = comm_create(hello)))
        refuse(conn, ncclSystemError, "out of memory while setting up a communicator of %d ranks",
               hello->ranks);
    return comm;
}

void hub_comm_hello(struct hub_conn *conn, const struct sgn_hello *hello, const uint8_t secret[SGN_SECRET])
{
    if (memcmp(hello->secret, secret, SGN_SECRET) || hello->ranks < 1 || hello->rank < 0 ||
        hello->rank >= hello->ranks) {
        hub_drop(conn);
        return;
    }
    if (hello->version != SGN_VERSION) {
        refuse(conn, ncclInvalidUsage, "rank %d uses another version of the software libnccl (%u, not %u)",
               hello->rank, hello->version, SGN_VERSION);
        return;
    }
    struct hub_comm *comm = find_comm(conn, hello);
    if (!comm)
        return;
    if (comm->failed) {
        hub_send(conn, SGN_FAILED, &comm->failure, sizeof(comm->failure));
        return;
    }
    if (hello->ranks != comm->ranks || comm->members[hello->rank].joined) {
        bool twice = hello->ranks == comm->ranks;
        refuse(conn, ncclInvalidUsage,
               twice ? "rank %d (of %d) joins twice with the same unique id"
                     : "rank %d says that there are %d ranks, others said another number",
               hello->rank, hello->ranks);
        hub_comm_fail(comm, ncclInvalidUsage,
                      twice ? "rank %d (of %d) joined twice with the same unique id"
                            : "rank %d said that there are %d ranks, others said another number",
                      hello->rank, hello->ranks);
        return;
    }
    struct hub_member *member = &comm->members[hello->rank];
    *member = (struct hub_member){.conn = conn, .joined = true, .hello = *hello};
    member->hello.host[SGN_NAME - 1] = member->hello.name[SGN_NAME - 1] = '\0';
    comm->places[hello->rank] = hello->place;
    conn->comm = comm;
    conn->rank = hello->rank;
    comm->connected++;
    if (++comm->joined == comm->ranks)
        make_ready(comm);
}

/* --- leaving --- */

static void round_check(struct hub_comm *comm, int rank);

void hub_comm_leave(struct hub_conn *conn)
{
    struct hub_comm *comm = conn->comm;
    comm->members[conn->rank].left = true;
    round_check(comm, conn->rank);
    hub_match_check_left(comm);
}

void hub_comm_revoke(struct hub_conn *conn)
{
    char name[160];
    hub_comm_name(conn->comm, name);
    hub_comm_fail(conn->comm, ncclRemoteError, "rank %d revoked or aborted %s", conn->rank, name);
}

void hub_comm_gone(struct hub_conn *conn)
{
    struct hub_comm *comm = conn->comm;
    struct hub_member *member = &comm->members[conn->rank];
    char name[160];
    member->conn = NULL;
    comm->connected--;
    if (!member->left) {
        member->dead = true;
        hub_comm_name(comm, name);
        hub_comm_fail(comm, ncclRemoteError, "rank %d of %s ended without leaving it (pid %u on %s)",
                      conn->rank, name, member->hello.pid, member->hello.host);
        round_check(comm, conn->rank);
    }
    /* One that failed before all had come stays, so that those who come late are told. */
    if (comm->connected == 0 && comm->joined == comm->ranks)
        comm_destroy(comm);
    else if (comm->connected == 0) {
        hub_comm_fail(comm, ncclRemoteError, "the other ranks left before all had come");
        hub_served(-1);
    }
}

/* --- split and shrink --- */

static void round_remove(struct hub_comm *comm, struct hub_round *round)
{
    struct hub_round **at = &comm->rounds;
    while (*at != round)
        at = &(*at)->next;
    *at = round->next;
    free(round->excluded);
    free(round);
}

static __attribute__((format(printf, 3, 4))) void round_fail(struct hub_comm *comm, struct hub_round *round,
                                                             const char *format, ...)
{
    struct sgn_failed failure = {0};
    va_list args;
    va_start(args, format);
    set_failure(&failure, ncclInvalidUsage, format, args);
    va_end(args);
    for (int r = 0; r < comm->ranks; r++)
        if (round->slots[r].here && comm->members[r].conn) {
            failure.control = (uint32_t)round->slots[r].control.id;
            hub_send(comm->members[r].conn, SGN_FAILED, &failure, sizeof(failure));
        }
    round_remove(comm, round);
}

static bool round_excludes(const struct hub_round *round, int rank)
{
    for (uint32_t i = 0; i < round->excluded_count; i++)
        if (round->excluded[i] == rank)
            return true;
    return false;
}

/* rank left or died: rounds that still need it fail. */
static void round_check(struct hub_comm *comm, int rank)
{
    for (struct hub_round *round = comm->rounds, *next; round; round = next) {
        next = round->next;
        if (!round->slots[rank].here && !round_excludes(round, rank))
            round_fail(comm, round, "%s cannot go on: rank %d is gone",
                       round->shrink ? "ncclCommShrink" : "ncclCommSplit", rank);
    }
}

/* Whether a comes before b in their child: by key, then by rank in the parent. */
static bool before(const struct hub_round *round, int a, int b)
{
    int x = round->slots[a].control.key, y = round->slots[b].control.key;
    return x != y ? x < y : a < b;
}

static void round_complete(struct hub_comm *comm, struct hub_round *round)
{
    for (int r = 0; r < comm->ranks; r++) {
        const struct round_slot *slot = &round->slots[r];
        if (!slot->here || !comm->members[r].conn)
            continue;
        struct sgn_child child = {.id = slot->control.id};
        int root = r;
        for (int other = 0; other < comm->ranks; other++) {
            if (!round->slots[other].here || round->slots[other].control.color != slot->control.color)
                continue;
            child.ranks++;
            child.rank += other != r && before(round, other, r);
            if (before(round, other, root))
                root = other;
        }
        child.child = round->slots[root].control.offer;
        hub_send(comm->members[r].conn, SGN_CHILD, &child, sizeof(child));
    }
    round_remove(comm, round);
}

static struct hub_round *round_for(struct hub_comm *comm, int rank, const struct sgn_control *control,
                                   const int32_t *excluded)
{
    struct hub_round **at = &comm->rounds;
    while (*at && (*at)->slots[rank].here)
        at = &(*at)->next;
    if (*at)
        return *at;
    struct hub_round *round = calloc(1, sizeof(*round) + (size_t)comm->ranks * sizeof(round->slots[0]));
    if (!round)
        return NULL;
    round->shrink = control->shrink;
    round->excluded_count = control->excluded;
    round->excluded = calloc(control->excluded + 1u, sizeof(int32_t));
    if (!round->excluded) {
        free(round);
        return NULL;
    }
    memcpy(round->excluded, excluded, control->excluded * sizeof(int32_t));
    round->need = comm->ranks - (int)control->excluded;
    *at = round;
    return round;
}

static bool round_agrees(const struct hub_round *round, const struct sgn_control *control,
                         const int32_t *excluded)
{
    return round->shrink == (control->shrink != 0) && round->excluded_count == control->excluded &&
           !memcmp(round->excluded, excluded, control->excluded * sizeof(int32_t));
}

void hub_comm_control(struct hub_conn *conn, const uint8_t *body, size_t bytes)
{
    struct hub_comm *comm = conn->comm;
    struct sgn_control control;
    if (bytes < sizeof(control)) {
        hub_drop(conn);
        return;
    }
    memcpy(&control, body, sizeof(control));
    if (control.excluded > (uint32_t)comm->ranks ||
        bytes != sizeof(control) + control.excluded * sizeof(int32_t)) {
        hub_drop(conn);
        return;
    }
    const int32_t *excluded = (const void *)(body + sizeof(control));
    struct hub_round *round = round_for(comm, conn->rank, &control, excluded);
    if (!round) {
        hub_drop(conn);
        return;
    }
    bool agrees = round_agrees(round, &control, excluded);
    round->slots[conn->rank] = (struct round_slot){true, control};
    if (!agrees) {
        round_fail(comm, round,
                   "rank %d calls %s with other arguments than the other ranks (another call, or other "
                   "excluded ranks)",
                   conn->rank, control.shrink ? "ncclCommShrink" : "ncclCommSplit");
        return;
    }
    if (++round->have == round->need) {
        round_complete(comm, round);
        return;
    }
    for (int r = 0; r < comm->ranks; r++)
        if (comm->members[r].left || comm->members[r].dead) {
            round_check(comm, r);
            return;
        }
}
