/* The mover on a software GPU. The test plays prismd and the ranks: it makes ranges of device memory, has them moved out,
 * frees them, makes new ones, has them moved in, and compares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cuda.h>

#include "proto/mover.h"

#define MIB       (1ull << 20)
#define RANGES    24
#define OK(call)  assert_int_equal((call), CUDA_SUCCESS)

struct memory {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    uint64_t bytes;
};

struct player {
    uint32_t rank;
    int socket;
    struct memory ranges[RANGES];
    uint32_t n;
};

static const char *said; /* file for what the next mover says, if set */
static pid_t mover;
static int prismd = -1;
static char folder[] = "/tmp/prism-mover-test.XXXXXX", binary[PATH_MAX + 32], library[PATH_MAX + 32];

/* --- the process --- */

static void start(const char *pool)
{
    int pair[2];
    char number[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    mover = fork();
    if (!mover) {
        fcntl(pair[1], F_SETFD, 0);
        if (said && (setenv("PRISM_LOG", "warn", 1) || !freopen(said, "w", stderr)))
            _exit(127);
        snprintf(number, sizeof number, "%d", pair[1]);
        setenv("PRISM_HOST_POOL", pool, 1);
        setenv("PRISM_HOST_RESERVE", "0", 0); /* whatever this machine has */
        setenv("PRISM_SPILL", folder, 1);
        execl(binary, "prism-mover", number, "1", "0", (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    prismd = pair[0];
}

static struct mover_message hear(int socket, uint32_t type, char *text)
{
    struct mover_message m;
    int fd;
    do {
        assert_int_equal(mover_receive(socket, &m, &fd, text, 0), 1);
        assert_true(m.type != MOVER_FAILED || type == MOVER_FAILED);
    } while (m.type == MOVER_HOST && type != MOVER_HOST);
    assert_int_equal(m.type, type);
    assert_int_equal(fd, -1);
    return m;
}

static void stop(int expected)
{
    int status;
    if (!expected)
        close(prismd);
    assert_int_equal(waitpid(mover, &status, 0), mover);
    if (expected)
        close(prismd);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

static void tell(uint32_t type, uint32_t rank, int fd)
{
    struct mover_message m = {.type = type, .rank = rank, .total = 1ull << 40};
    assert_int_equal(mover_send(prismd, &m, fd, NULL), 0);
}

/* --- a rank --- */

static void join(struct player *p, uint32_t rank)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *p = (struct player){.rank = rank, .socket = pair[0]};
    tell(MOVER_ATTACH, rank, pair[1]);
    close(pair[1]);
}

static uint64_t word(const struct player *p, uint32_t range, uint64_t i)
{
    return (((uint64_t)p->rank << 40 | (uint64_t)range << 32 | i) + 1) * 0x9e3779b97f4a7c15u;
}

static void make(struct memory *m)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemCreate(&m->handle, m->bytes, &properties, 0));
    if (!m->at)
        OK(cuMemAddressReserve(&m->at, m->bytes, 0, 0, 0));
    OK(cuMemMap(m->at, m->bytes, 0, m->handle, 0));
    OK(cuMemSetAccess(m->at, m->bytes, &access, 1));
}

static void unmake(struct memory *m)
{
    OK(cuMemUnmap(m->at, m->bytes));
    OK(cuMemRelease(m->handle));
}

/* Memory of a software GPU is memory of the host. */
static void fill(struct player *p, uint32_t n, uint64_t least, uint64_t step)
{
    p->n = n;
    for (uint32_t i = 0; i < n; i++) {
        p->ranges[i].bytes = least + i % 3 * step;
        make(&p->ranges[i]);
        uint64_t *at = (uint64_t *)(uintptr_t)p->ranges[i].at;
        for (uint64_t k = 0; k < p->ranges[i].bytes / 8; k++)
            at[k] = word(p, i, k);
    }
}

static void compare(const struct player *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const uint64_t *at = (const uint64_t *)(uintptr_t)p->ranges[i].at;
        for (uint64_t k = 0; k < p->ranges[i].bytes / 8; k++)
            if (at[k] != word(p, i, k))
                fail_msg("rank %u: range %u differs at byte %llu", p->rank, i, (unsigned long long)k * 8);
    }
}

static void send_ranges(struct player *p, uint32_t type)
{
    for (uint32_t i = 0; i < p->n; i++) {
        struct mover_message m = {.type = type, .rank = p->rank, .range = i, .bytes = p->ranges[i].bytes};
        int fd;
        if (type == MOVER_IN)
            make(&p->ranges[i]);
        OK(cuMemExportToShareableHandle(&fd, p->ranges[i].handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        assert_int_equal(mover_send(p->socket, &m, fd, NULL), 0);
        close(fd);
    }
}

static void hear_copied(struct player *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        hear(p->socket, MOVER_COPIED, NULL);
}

static void end_move(struct player *p, uint32_t type)
{
    struct mover_message m = {.type = type, .rank = p->rank};
    for (uint32_t i = 0; i < p->n; i++)
        m.bytes += p->ranges[i].bytes;
    assert_int_equal(mover_send(p->socket, &m, -1, NULL), 0);
}

static uint64_t all_bytes(const struct player *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n; i++)
        sum += p->ranges[i].bytes;
    return sum;
}

static void begin_out(struct player *p)
{
    tell(MOVER_EVICT, p->rank, -1);
    assert_int_equal(hear(p->socket, MOVER_EVICT, NULL).rank, p->rank);
    send_ranges(p, MOVER_OUT);
}

/* Returns the bytes on disk. */
static uint64_t end_out(struct player *p)
{
    hear_copied(p);
    for (uint32_t i = 0; i < p->n; i++)
        unmake(&p->ranges[i]);
    end_move(p, MOVER_OUT_END);
    struct mover_message m = hear(prismd, MOVER_EVICTED, NULL);
    assert_int_equal(m.rank, p->rank);
    assert_int_equal(m.bytes, all_bytes(p));
    assert_int_equal(m.range, p->n);
    assert_true(m.ns > 0);
    return m.spilled;
}

static void begin_in(struct player *p)
{
    tell(MOVER_RESTORE, p->rank, -1);
    hear(p->socket, MOVER_RESTORE, NULL);
    send_ranges(p, MOVER_IN);
}

static void end_in(struct player *p)
{
    hear_copied(p);
    end_move(p, MOVER_IN_END);
    struct mover_message m = hear(prismd, MOVER_RESTORED, NULL);
    assert_int_equal(m.rank, p->rank);
    assert_int_equal(m.bytes, all_bytes(p));
    assert_int_equal(m.range, p->n);
    compare(p);
}

static void leave(struct player *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        unmake(&p->ranges[i]);
        OK(cuMemAddressFree(p->ranges[i].at, p->ranges[i].bytes));
    }
    tell(MOVER_DETACH, p->rank, -1);
    close(p->socket);
}

/* --- tests --- */

static void contents_survive(void **state)
{
    (void)state;
    static struct player p[3];
    start("1073741824");
    struct mover_message ready = hear(prismd, MOVER_READY, NULL);
    assert_true(ready.bytes > 0 && ready.bytes <= ready.total);
    assert_int_equal(ready.flag, 1);
    for (uint32_t i = 0; i < 3; i++) {
        join(&p[i], 10 + i);
        fill(&p[i], RANGES, 2 * MIB, 2 * MIB);
    }
    begin_out(&p[0]);
    begin_out(&p[1]);
    assert_int_equal(end_out(&p[0]) + end_out(&p[1]), 0);
    /* Both directions at once. */
    for (int round = 0; round < 3; round++) {
        struct player *in = &p[round % 3], *out = &p[(round + 2) % 3];
        begin_in(in);
        begin_out(out);
        end_in(in);
        end_out(out);
    }
    for (uint32_t i = 0; i < 2; i++) {
        begin_in(&p[i]);
        end_in(&p[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        leave(&p[i]);
    stop(0);
}

/* The pool holds one rank: the others go to the file. */
static void pool_spills(void **state)
{
    (void)state;
    static struct player p[3];
    start("33554432"); /* 32 MiB */
    hear(prismd, MOVER_READY, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        join(&p[i], i);
        fill(&p[i], 6, 2 * MIB, 2 * MIB);
        begin_out(&p[i]);
        assert_int_equal(end_out(&p[i]), 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        begin_in(&p[i]);
        end_in(&p[i]);
    }
    /* What is on disk is told with the next move. */
    for (uint32_t i = 0; i < 3; i++)
        begin_out(&p[i]);
    uint64_t spilled = 0;
    for (uint32_t i = 0; i < 3; i++)
        spilled += end_out(&p[i]);
    assert_true(spilled > 0);
    for (uint32_t i = 0; i < 3; i++) {
        begin_in(&p[i]);
        end_in(&p[i]);
        leave(&p[i]);
    }
    stop(0);
}

/* No pool at all, and ranges larger than a batch and than a stage. */
static void file_alone(void **state)
{
    (void)state;
    static struct player p;
    start("1");
    hear(prismd, MOVER_READY, NULL);
    join(&p, 0);
    fill(&p, 2, 34 * MIB, 2 * MIB);
    begin_out(&p);
    assert_int_equal(end_out(&p), all_bytes(&p));
    begin_in(&p);
    end_in(&p);
    leave(&p);
    stop(0);
}

static void large_range(void **state)
{
    (void)state;
    static struct player p;
    start("1073741824");
    hear(prismd, MOVER_READY, NULL);
    join(&p, 0);
    fill(&p, 1, 300 * MIB, 0);
    begin_out(&p);
    assert_int_equal(end_out(&p), 0);
    begin_in(&p);
    end_in(&p);
    leave(&p);
    stop(0);
}

/* Change a byte of the mover's unlinked file. */
static void damage(void)
{
    char path[64], target[PATH_MAX];
    int done = 0;
    for (int fd = 3; fd < 256 && !done; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)mover, fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = 0;
        int file = strncmp(target, folder, strlen(folder)) ? -1 : open(path, O_RDWR);
        if (file >= 0) {
            assert_int_equal(pwrite(file, "x", 1, (off_t)MIB + 5), 1);
            fsync(file);
            close(file);
            done = 1;
        }
    }
    assert_true(done);
}

static void damage_is_found(void **state)
{
    (void)state;
    static struct player p;
    char text[MOVER_TEXT + 1];
    start("1");
    hear(prismd, MOVER_READY, NULL);
    join(&p, 41);
    fill(&p, 1, 4 * MIB, 0);
    begin_out(&p);
    end_out(&p);
    damage();
    begin_in(&p);
    hear(prismd, MOVER_FAILED, text);
    assert_non_null(strstr(text, "rank 41"));
    assert_non_null(strstr(text, "damaged"));
    assert_non_null(strstr(text, folder));
    close(p.socket);
    stop(68);
}

/* A rank that dies while it is moved does not disturb the others. */
static void rank_dies(void **state)
{
    (void)state;
    static struct player dead, p;
    start("1073741824");
    hear(prismd, MOVER_READY, NULL);
    join(&dead, 1);
    join(&p, 2);
    fill(&dead, RANGES, 2 * MIB, 2 * MIB);
    fill(&p, RANGES, 2 * MIB, 2 * MIB);
    begin_out(&dead);
    close(dead.socket);
    tell(MOVER_DETACH, 1, -1);
    begin_out(&p);
    end_out(&p);
    struct mover_message host = {0}, m;
    begin_in(&p);
    hear_copied(&p);
    end_move(&p, MOVER_IN_END);
    for (int fd; assert_int_equal(mover_receive(prismd, &m, &fd, NULL, 0), 1), m.type == MOVER_HOST;)
        host = m; /* the last is of now, those before may be of slabs that were added */
    assert_int_equal(m.type, MOVER_RESTORED);
    assert_int_equal(host.bytes, 0); /* the dead rank's is given back too */
    compare(&p);
    leave(&p);
    stop(0);
}

/* --- on a node whose memory is short now and then (test/store.c has the rest) --- */

#define RESERVE "1073741824"
#define POOL    (96 * MIB)
#define POOL_TEXT "100663296"

static void set_available(uint64_t mib)
{
    char path[PATH_MAX], next[PATH_MAX];
    snprintf(path, sizeof path, "%s/node/proc/meminfo", folder);
    snprintf(next, sizeof next, "%s/node/next", folder);
    FILE *f = fopen(next, "w");
    assert_non_null(f);
    fprintf(f, "MemTotal: %llu kB\nMemAvailable: %llu kB\n", 64ull << 20, (unsigned long long)mib << 10);
    fclose(f);
    assert_int_equal(rename(next, path), 0);
}

static void start_on_node(uint64_t mib)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/node", folder);
    mkdir(path, 0700);
    setenv("PRISM_TEST_MEMORY", path, 1);
    setenv("PRISM_HOST_RESERVE", RESERVE, 1);
    strcat(path, "/proc");
    mkdir(path, 0700);
    set_available(mib);
    start(POOL_TEXT);
    unsetenv("PRISM_TEST_MEMORY");
    unsetenv("PRISM_HOST_RESERVE");
    hear(prismd, MOVER_READY, NULL);
}

static struct mover_message await_pinned(uint64_t bytes)
{
    struct mover_message m;
    do
        m = hear(prismd, MOVER_HOST, NULL);
    while (m.total != bytes);
    return m;
}

static void pool_yields(void **state)
{
    (void)state;
    static struct player p[3];
    uint64_t all = 0;
    start_on_node(32 << 10);
    await_pinned(POOL);
    for (uint32_t i = 0; i < 3; i++) {
        join(&p[i], i);
        fill(&p[i], 6, 2 * MIB, 2 * MIB);
        begin_out(&p[i]);
        assert_int_equal(end_out(&p[i]), 0);
        all += all_bytes(&p[i]);
    }
    set_available(1000);
    struct mover_message host = await_pinned(0);
    assert_int_equal(host.bytes, 0);
    assert_int_equal(host.spilled, all);
    begin_in(&p[0]);
    end_in(&p[0]);
    begin_out(&p[0]); /* to the file at once */
    assert_int_equal(end_out(&p[0]), all_bytes(&p[0]));
    set_available(32 << 10);
    await_pinned(POOL);
    for (uint32_t i = 0; i < 3; i++) {
        begin_in(&p[i]);
        end_in(&p[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        begin_out(&p[i]);
        assert_int_equal(end_out(&p[i]), 0);
        begin_in(&p[i]);
        end_in(&p[i]);
        leave(&p[i]);
    }
    stop(0);
}

static void pool_yields_at_any_time(void **state)
{
    (void)state;
    enum { PLAYERS = 4, STEPS = 80 };
    static const uint64_t levels[] = {0, 1023, 1024, 1040, 32 << 10};
    static struct player p[PLAYERS];
    bool out[PLAYERS] = {false};
    uint32_t seed = 5;
    start_on_node(1024);
    for (uint32_t i = 0; i < PLAYERS; i++) {
        join(&p[i], i);
        fill(&p[i], 9, 2 * MIB, 2 * MIB);
    }
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t i = (seed >> 16) % PLAYERS;
        set_available(levels[(seed >> 24) % 5]);
        (out[i] ? begin_in : begin_out)(&p[i]);
        set_available(levels[(seed >> 27) % 5]);
        if (out[i])
            end_in(&p[i]);
        else
            end_out(&p[i]);
        out[i] = !out[i];
    }
    for (uint32_t i = 0; i < PLAYERS; i++) {
        if (out[i]) {
            begin_in(&p[i]);
            end_in(&p[i]);
        }
        leave(&p[i]);
    }
    stop(0);
}

static bool file_has(const char *path, const char *text)
{
    char line[1024];
    bool found = false;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        found |= strstr(line, text) != NULL;
    fclose(f);
    return found;
}

/* Of what is asked for and what there is; then of what is given back. */
static void short_memory_is_told(void **state)
{
    (void)state;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/said", folder);
    said = path;
    start_on_node(1064);
    said = NULL;
    await_pinned(40 * MIB);
    assert_true(file_has(path, "PRISM_HOST_POOL is 0.1 GB, and 1.1 GB of memory are available, of which 1.1 GB are kept free"));
    assert_false(file_has(path, "the node's memory is short"));
    set_available(500);
    await_pinned(0);
    assert_true(file_has(path, "the node's memory is short (0.5 GB available, 1.1 GB are kept free: PRISM_HOST_RESERVE)"));
    assert_true(file_has(path, folder));
    stop(0);
}

static int set_up(void **state)
{
    (void)state;
    char self[PATH_MAX], devices[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0 || !mkdtemp(folder))
        return -1;
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(binary, sizeof binary, "%s/../bin/prism-mover", self);
    snprintf(library, sizeof library, "%s/../lib/softgpu", self);
    snprintf(devices, sizeof devices, "%s/devices", folder);
    setenv("LD_LIBRARY_PATH", library, 1);
    setenv("SOFTGPU_DIR", devices, 1);
    CUdevice device;
    CUcontext context;
    return mkdir(devices, 0700) || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
           cuCtxSetCurrent(context);
}

static int clean_up(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_survive), cmocka_unit_test(pool_spills),     cmocka_unit_test(file_alone),
        cmocka_unit_test(large_range),      cmocka_unit_test(damage_is_found), cmocka_unit_test(rank_dies),
        cmocka_unit_test(pool_yields),      cmocka_unit_test(pool_yields_at_any_time),
        cmocka_unit_test(short_memory_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
