#include "preload/test/fake_prismd.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "coll/types.h"
#include "common/clock.h"
#include "graph/graph.h"
#include "proto/region.h"

#ifdef __SANITIZE_THREAD__
#define LIMIT_S 240 /* copies of many megabytes take it a minute */
#else
#define LIMIT_S 20
#endif
#define LIMIT_NS (LIMIT_S * NSEC_PER_SEC)
#define PACE_NS     2000000
#define GATES       4096
#define COMMUNICATORS 64

struct gate {
    struct fake_rank *rank;
    struct msg_node node;
    struct msg_part *parts;
    uint32_t nparts; /* received so far */
    bool open;
    int64_t open_at;
};

static struct gate gates[GATES];
static uint32_t ngates;
static char socket_name[64];
static int listener;

/* The communicators of all ranks are the world's, or halves of it by CommSplit color (rank modulo 2). */
static int32_t comm_size[FAKE_RANKS][COMMUNICATORS], comm_rank[FAKE_RANKS][COMMUNICATORS];
static int32_t comm_key[FAKE_RANKS][COMMUNICATORS]; /* equal in all members */

static void listen_on_name(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    static int serial;
    snprintf(socket_name, sizeof socket_name, "prism-preload-test-%d-%d", (int)getpid(), serial++);
    memcpy(a.sun_path + 1, socket_name, strlen(socket_name));
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(socket_name))), 0);
    assert_int_equal(listen(listener, 16), 0);
}

/* This program lies in <build>/test, the library in <build>/lib. */
static const char *in_build(const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4], exe[2048];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    *strrchr(exe, '/') = '\0';
    *strrchr(exe, '/') = '\0';
    snprintf(path, sizeof paths[0], "%s/%s", exe, name);
    return path;
}

static void execute(const struct fake *f, int out, const char *const *args)
{
    const char *argv[16] = {in_build(f->program ? f->program : "test/preload_program")};
    for (int i = 0; args[i] && i < 14; i++)
        argv[i + 1] = args[i];
    setenv("LD_LIBRARY_PATH", in_build("lib/softgpu"), 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    for (int i = 0; f->more_env[i][0]; i++)
        setenv(f->more_env[i][0], f->more_env[i][1], 1);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Participants of a real communicator: a device each, or with $PRISM_TEST_ONE_DEVICE (a machine with one real GPU) all on
 * one, which NCCL allows between what it takes for different hosts. */
static void choose_device(uint32_t participant)
{
    char number[16];
    snprintf(number, sizeof number, "%u", participant);
    setenv(getenv("PRISM_TEST_ONE_DEVICE") ? "NCCL_HOSTID" : "CUDA_VISIBLE_DEVICES", number, 1);
}

static void become_rank(const struct fake *f, uint32_t rank, int out, const char *const *args)
{
    char number[16];
    snprintf(number, sizeof number, "%u", rank);
    setenv("PRISM_RANK", number, 1);
    setenv("RANK", number, 1);
    snprintf(number, sizeof number, "%u", f->world ? f->world : f->nranks);
    setenv("WORLD_SIZE", number, 1);
    if (!f->inert)
        setenv("PRISM_SOCKET", socket_name, 1);
    setenv("PRISM_KEY", "0123456789abcdef0123456789abcdef", 1);
    if (f->phase == PHASE_CAPTURE)
        setenv("PRISM_WIDEN_CONNECTIONS", "32", 1);
    if (!f->bare)
        setenv("LD_PRELOAD", in_build("lib/libprism.so"), 1);
    setenv("NVTX_INJECTION64_PATH", in_build("lib/libprism.so"), 0);
    if (f->transport == TRANSPORT_NCCL)
        choose_device(rank);
    execute(f, out, args);
}

/* --- memory --- */

static pthread_mutex_t gates_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t switchers[FAKE_RANKS];
static struct switched {
    struct fake *f;
    struct fake_rank *rank;
} switched[FAKE_RANKS];

void fake_lock(void)
{
    pthread_mutex_lock(&gates_lock);
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&gates_lock);
}

static void *switcher(void *arg)
{
    const struct switched *s = arg;
    s->f->switching(s->f, s->rank);
    return NULL;
}

/* Returns the rank's end. */
static int start_switcher(struct fake *f, uint32_t rank)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    f->ranks[rank].mover = ends[0];
    switched[rank] = (struct switched){f, &f->ranks[rank]};
    assert_int_equal(pthread_create(&switchers[rank], NULL, switcher, &switched[rank]), 0);
    return ends[1];
}

static void welcome(struct fake *f, int fd, uint32_t rank)
{
    struct fake_rank *r = &f->ranks[rank];
    uint64_t size = f->region_size ? f->region_size : 64u << 20;
    int memory = memfd_create("prism-test", MFD_CLOEXEC);
    assert_true(memory >= 0);
    assert_int_equal(ftruncate(memory, (off_t)size), 0);
    r->region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_true(r->region != MAP_FAILED);
    r->socket = fd;
    struct msg_welcome w = {.h = {MSG_WELCOME, sizeof w},
                            .phase = f->phase,
                            .transport = f->transport,
                            .world = f->nranks,
                            .rank = rank,
                            .record_times = f->phase != PHASE_CAPTURE,
                            .max_waiting = f->max_waiting ? f->max_waiting : 31,
                            .region_size = size,
                            .staging = f->staging ? f->staging : size,
                            .control = f->control};
    union {
        char space[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    int descriptors[2] = {memory, f->switching ? start_switcher(f, rank) : -1};
    size_t passed = (f->switching ? 2 : 1) * sizeof(int);
    struct iovec iov = {&w, sizeof w};
    struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(passed)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(passed);
    memcpy(CMSG_DATA(c), descriptors, passed);
    assert_int_equal(sendmsg(fd, &mh, MSG_NOSIGNAL), (int)sizeof w);
    close(memory);
    if (f->switching)
        close(descriptors[1]);
}

static void take_hello(struct fake *f)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct msg_hello hello;
    assert_true(fd >= 0);
    assert_int_equal(recv(fd, &hello, sizeof hello, 0), (int)sizeof hello);
    assert_int_equal(hello.h.type, MSG_HELLO);
    assert_int_equal(hello.version, MSG_VERSION);
    assert_memory_equal(hello.key, "0123456789abcdef0123456789abcdef", MSG_KEY_LEN);
    assert_true(hello.rank < f->nranks);
    if (f->ranks[hello.rank].hellos++ || f->refuse) {
        struct msg_header refused = {MSG_REFUSED, sizeof refused};
        send(fd, &refused, sizeof refused, MSG_NOSIGNAL);
        close(fd);
        return;
    }
    welcome(f, fd, hello.rank);
}

/* --- the assistant of a shrunk communicator --- */

static pid_t assistant;
static uint8_t real_id[MSG_UID_LEN];

/* It makes the unique id and prints it in hexadecimal digits. */
static void start_assistant(const struct fake *f, const char *act)
{
    char size[16], text[2 * MSG_UID_LEN + 1];
    int out[2];
    snprintf(size, sizeof size, "%u", f->nranks + 1);
    assert_int_equal(pipe(out), 0);
    assistant = fork();
    if (!assistant) {
        close(out[0]);
        choose_device(f->nranks);
        execute(f, out[1], (const char *const[]){"assistant", size, act, NULL});
    }
    close(out[1]);
    for (size_t have = 0; have < sizeof text;) {
        ssize_t n = read(out[0], text + have, sizeof text - have);
        assert_true(n > 0);
        have += (size_t)n;
    }
    close(out[0]);
    for (size_t i = 0; i < sizeof real_id; i++)
        assert_int_equal(sscanf(text + 2 * i, "%2hhx", &real_id[i]), 1);
}

static void answer_shrunk(const struct fake *f, struct fake_rank *r, uint32_t rank, struct msg_comm_ready *ready)
{
    struct {
        struct msg_comm_ready ready;
        int32_t sandbox[FAKE_RANKS];
    } m = {.ready = *ready};
    m.ready.real_size = (int32_t)f->nranks + 1;
    m.ready.real_rank = (int32_t)rank;
    m.ready.assistants = 1;
    m.ready.nsandbox = f->nranks;
    memcpy(m.ready.unique_id, real_id, sizeof real_id);
    for (uint32_t i = 0; i < f->nranks; i++)
        m.sandbox[i] = (int32_t)i;
    m.ready.h.size = (uint32_t)(sizeof *ready + f->nranks * sizeof *m.sandbox);
    send(r->socket, &m, m.ready.h.size, MSG_NOSIGNAL);
}

static void answer_comm(const struct fake *f, struct fake_rank *r, uint32_t rank, uint32_t comm, int32_t size, int32_t in_comm, int32_t key)
{
    struct msg_comm_ready ready = {.h = {MSG_COMM_READY, sizeof ready}, .comm = comm, .size = size, .rank = in_comm};
    assert_true(comm < COMMUNICATORS);
    comm_size[rank][comm] = size;
    comm_rank[rank][comm] = in_comm;
    comm_key[rank][comm] = key;
    if (f->transport == TRANSPORT_NCCL && size > 1)
        answer_shrunk(f, r, rank, &ready);
    else
        send(r->socket, &ready, sizeof ready, MSG_NOSIGNAL);
}

static void take_node(struct fake_rank *r, const struct msg_node *m)
{
    const struct msg_part *parts = (const struct msg_part *)(m + 1);
    struct gate *g = NULL;
    if (m->kind == GRAPH_COMM && m->first_part) {
        g = &gates[ngates - 1];
        assert_int_equal(g->node.index, m->index);
    } else {
        assert_int_equal(m->index, r->nnodes);
        assert_true(r->nnodes < FAKE_NODES);
        r->nodes[r->nnodes] = *m;
        if (m->kind == GRAPH_COMM) {
            assert_true(ngates < GATES && m->nparts);
            r->first_parts[r->nnodes] = parts[0];
            g = &gates[ngates++];
            *g = (struct gate){.rank = r, .node = *m};
            g->parts = calloc(m->total_parts, sizeof *g->parts);
        }
        r->nnodes++;
    }
    for (uint32_t i = 0; g && i < m->nparts; i++)
        g->parts[g->nparts++] = parts[i];
}

union message {
    char bytes[MSG_MAX];
    struct msg_header h;
    struct msg_comm_init init;
    struct msg_comm_split split;
    struct msg_node node;
    struct msg_times times;
    struct msg_memory memory;
    struct msg_set_up set_up;
    struct msg_mark mark;
    struct msg_store_port port;
    struct msg_fatal fatal;
};

static void take_message(struct fake *f, uint32_t rank, const union message *m, ssize_t n)
{
    struct fake_rank *r = &f->ranks[rank];
    switch (m->h.type) {
    case MSG_COMM_INIT:
        answer_comm(f, r, rank, m->init.comm, m->init.size, m->init.rank, m->init.unique_id[20]);
        break;
    case MSG_COMM_SPLIT: /* the tests split by rank modulo 2, all ranks taking part in the world */
        answer_comm(f, r, rank, m->split.comm, m->split.color < 0 ? 0 : (int32_t)(f->nranks + 1 - rank % 2) / 2,
                    (int32_t)rank / 2, 1000 + m->split.color);
        break;
    case MSG_COMM_FREE:
        r->frees++;
        break;
    case MSG_NODE:
        take_node(r, &m->node);
        break;
    case MSG_SET_UP:
        assert_int_equal(m->set_up.done, r->set_ups);
        assert_int_equal(m->set_up.wakes, m->set_up.done); /* software GPUs */
        r->set_ups++;
        break;
    case MSG_SYNC_ENTER:
        r->sync_enters++;
        break;
    case MSG_TIMES:
        r->moves += !m->times.count;
        for (uint32_t i = 0; i < m->times.count && r->ntimes < FAKE_NODES; i++)
            r->times[r->ntimes++] = ((struct msg_time *)(&m->times + 1))[i];
        break;
    case MSG_MEMORY:
        r->peak_bytes = m->memory.peak_bytes;
        r->live_bytes = m->memory.live_bytes;
        break;
    case MSG_STORE_PORT:
        r->store_port = m->port.port;
        break;
    case MSG_FATAL:
        r->fatal_code = m->fatal.code;
        snprintf(r->fatal, sizeof r->fatal, "%.*s", (int)(n - (ssize_t)sizeof m->fatal), (char *)(&m->fatal + 1));
        shutdown(r->socket, SHUT_RDWR);
        break;
    case MSG_MARK:
        assert_true(r->nmarks < FAKE_NODES && m->mark.position <= r->nnodes);
        r->marks[r->nmarks++] = m->mark;
        break;
    case MSG_BYE:
        r->bye = true;
        break;
    default:
        fail_msg("message of type %u", m->h.type);
    }
    if (f->hang_up && m->h.type == MSG_NODE)
        shutdown(r->socket, SHUT_RDWR);
}

static void take_datagram(struct fake *f, uint32_t rank)
{
    static union message m;
    static _Alignas(8) char bytes[MSG_MAX];
    struct fake_rank *r = &f->ranks[rank];
    ssize_t n = recv(r->socket, bytes, sizeof bytes, 0);
    if (n <= 0) {
        close(r->socket);
        r->socket = -1;
        return;
    }
    f->datagrams++;
    for (char *at = bytes; at < bytes + n; at += m.h.size) {
        memcpy(&m.h, at, sizeof m.h);
        assert_true(m.h.size >= sizeof m.h && m.h.size <= (size_t)(bytes + n - at));
        memcpy(&m, at, m.h.size);
        take_message(f, rank, &m, (ssize_t)m.h.size);
    }
}

/* --- gates --- */

static uint32_t rank_number(const struct fake *f, const struct gate *g)
{
    return (uint32_t)(g->rank - f->ranks);
}

static bool arrived(const struct gate *g)
{
    const struct region_slot *s = (struct region_slot *)g->rank->region + g->node.slot;
    return g->nparts == g->node.total_parts && region_word_reached(&s->arrive, g->node.generation);
}

static void open_gate(struct gate *g)
{
    struct region_slot *s = (struct region_slot *)g->rank->region + g->node.slot;
    region_word_set(&s->ready, g->node.generation);
    region_word_set(&s->go, g->node.generation);
    g->open = true;
}

/* The gate of another member with the same place in the same communicator. */
static struct gate *of_member(const struct fake *f, const struct gate *g, int32_t member)
{
    int32_t key = comm_key[rank_number(f, g)][g->node.comm];
    for (uint32_t i = 0; i < ngates; i++) {
        struct gate *o = &gates[i];
        uint32_t rank = rank_number(f, o);
        if (o->node.ordinal == g->node.ordinal && comm_key[rank][o->node.comm] == key &&
            comm_rank[rank][o->node.comm] == member)
            return o;
    }
    return NULL;
}

static void combine_part(const struct fake *f, struct gate *g, uint32_t part)
{
    const struct msg_part *p = &g->parts[part];
    int32_t size = comm_size[rank_number(f, g)][g->node.comm];
    int32_t me = comm_rank[rank_number(f, g)][g->node.comm];
    uint8_t *out = g->rank->region + p->out_offset;
    if (p->op == PRISM_OP_ALLREDUCE) {
        float *sum = (float *)(void *)out;
        for (uint64_t k = 0; k < p->count; k++) {
            sum[k] = 0;
            for (int32_t i = 0; i < size; i++) {
                struct gate *o = of_member(f, g, i);
                sum[k] += ((float *)(void *)(o->rank->region + o->parts[part].in_offset))[k];
            }
        }
    } else if (p->op == PRISM_OP_BROADCAST) {
        struct gate *o = of_member(f, g, p->peer);
        memcpy(out, o->rank->region + o->parts[part].in_offset, p->out_bytes);
    } else if (p->op == PRISM_OP_RECV) { /* the first send to me in the peer's group of the same place */
        struct gate *o = of_member(f, g, p->peer);
        for (uint32_t i = 0; i < o->nparts; i++)
            if (o->parts[i].op == PRISM_OP_SEND && o->parts[i].peer == me) {
                memcpy(out, o->rank->region + o->parts[i].in_offset, p->out_bytes);
                return;
            }
        fail_msg("a receive without its send");
    }
}

static void capture_gate(const struct fake *f, struct gate *g)
{
    int32_t size = comm_size[rank_number(f, g)][g->node.comm];
    for (int32_t i = 0; i < size; i++) {
        struct gate *o = of_member(f, g, i);
        if (!o || !arrived(o) || o->rank->held)
            return;
    }
    /* A rank whose gate is open may use its heap again. */
    for (int32_t m = 0; m < size; m++)
        for (uint32_t i = 0; i < of_member(f, g, m)->nparts; i++)
            combine_part(f, of_member(f, g, m), i);
    for (int32_t m = 0; m < size; m++)
        open_gate(of_member(f, g, m));
}

static void pace_gate(struct gate *g)
{
    struct region_slot *s = (struct region_slot *)g->rank->region + g->node.slot;
    if (!g->open_at) {
        g->open_at = clock_now_ns() + PACE_NS;
        for (uint32_t i = 0; i < g->nparts; i++)
            for (uint64_t k = 0; k < g->parts[i].out_bytes / 4; k++)
                ((float *)(void *)(g->rank->region + g->parts[i].out_offset))[k] = FAKE_VALUE;
        region_word_set(&s->ready, g->node.generation);
    }
    if (clock_now_ns() >= g->open_at)
        open_gate(g);
}

static void serve_gates(struct fake *f)
{
    fake_lock();
    for (uint32_t i = 0; i < ngates && !f->hold; i++) {
        if (gates[i].open || gates[i].rank->held || !arrived(&gates[i]))
            continue;
        if (f->phase == PHASE_CAPTURE)
            capture_gate(f, &gates[i]);
        else
            pace_gate(&gates[i]);
    }
    fake_unlock();
}

/* --- running --- */

static void read_output(struct fake_rank *r)
{
    ssize_t n = read(r->pipe, r->output + r->output_len, sizeof r->output - 1 - r->output_len);
    if (n > 0) {
        r->output_len += (size_t)n;
        return;
    }
    close(r->pipe);
    r->pipe = -1;
}

static bool serve(struct fake *f)
{
    struct pollfd p[1 + 2 * FAKE_RANKS];
    bool alive = false;
    p[0] = (struct pollfd){listener, POLLIN, 0};
    for (uint32_t i = 0; i < f->nranks; i++) {
        p[1 + 2 * i] = (struct pollfd){f->ranks[i].socket, POLLIN, 0};
        p[2 + 2 * i] = (struct pollfd){f->ranks[i].pipe, POLLIN, 0};
        alive |= f->ranks[i].socket >= 0 || f->ranks[i].pipe >= 0;
    }
    if (!alive)
        return false;
    poll(p, 1 + 2 * f->nranks, 1);
    if (p[0].revents)
        take_hello(f);
    for (uint32_t i = 0; i < f->nranks; i++) {
        if (p[1 + 2 * i].revents)
            take_datagram(f, i);
        if (p[2 + 2 * i].revents)
            read_output(&f->ranks[i]);
    }
    serve_gates(f);
    return true;
}

static void start(struct fake *f, uint32_t rank, const char *const *args)
{
    struct fake_rank *r = &f->ranks[rank];
    int out[2];
    assert_int_equal(pipe(out), 0);
    r->pid = fork();
    assert_true(r->pid >= 0);
    if (!r->pid) {
        close(out[0]);
        become_rank(f, rank, out[1], args);
    }
    close(out[1]);
    r->pipe = out[0];
    r->socket = -1;
    r->mover = -1;
}

void fake_run(struct fake *f, uint32_t n, const char *const *args)
{
    int64_t until = clock_now_ns() + LIMIT_NS;
    ngates = 0;
    f->nranks = n;
    if (!f->phase)
        f->phase = PHASE_CAPTURE;
    if (!f->transport)
        f->transport = TRANSPORT_PACED;
    listen_on_name();
    if (f->transport == TRANSPORT_NCCL)
        start_assistant(f, args[0]);
    for (uint32_t i = 0; i < n; i++)
        start(f, i, args);
    bool late = false;
    while (!late && serve(f))
        late = clock_now_ns() > until;
    for (uint32_t i = 0; late && i < n; i++)
        kill(f->ranks[i].pid, SIGKILL);
    if (late && assistant)
        kill(assistant, SIGKILL);
    for (uint32_t i = 0; i < n; i++)
        waitpid(f->ranks[i].pid, &f->ranks[i].status, 0);
    for (uint32_t i = 0; i < n; i++)
        if (f->ranks[i].mover >= 0)
            pthread_join(switchers[i], NULL);
    if (assistant)
        waitpid(assistant, NULL, 0);
    assistant = 0;
    for (uint32_t i = 0; i < ngates; i++)
        free(gates[i].parts);
    close(listener);
    if (late) /* only now: the threads above use what the next test begins with */
        fail_msg("ranks still run after %d s; the first wrote: %s", LIMIT_S, f->ranks[0].output);
}

uint32_t fake_count(const struct fake_rank *r, int kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->nnodes; i++)
        n += r->nodes[i].kind == kind;
    return n;
}
