/* The pinned pool on a node whose memory the test says: what is pinned is taken off it. Each test is a process, as threads of the
 * pool never end. The test plays the driver, guests and copies; what must always hold is looked at when a slab is pinned or given
 * back. Nothing is compared with the clock: what has to come is waited for, and an alarm ends what hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "prismd/mover/available.h"
#include "prismd/mover/gpu.h"
#include "prismd/mover/pool.h"
#include "prismd/mover/spill.h"
#include "prismd/mover/store.h"

#define MIB     (1ull << 20)
#define POOL    (64 * MIB) /* the limit */
#define SLAB    (8 * MIB)  /* of such a pool: four units */
#define RESERVE (100 * MIB)
#define PLENTY  (1ull << 40)
#define SECONDS 100 /* until what hangs is ended */

#define CHECK(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                       \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static char folder[] = "/tmp/prism-store-test.XXXXXX";

/* --- the node and its driver --- */

static struct {
    pthread_mutex_t lock;
    uint64_t memory; /* that pinned memory is taken of */
    uint64_t pinned, seen; /* bytes; what the last look saw */
    uint64_t looks, returns;
    bool looked;     /* since a slab was given back */
    bool steady;     /* memory stays as it is for now: what is pinned leaves the reserve */
    bool refuses;    /* to pin */
} node = {.lock = PTHREAD_MUTEX_INITIALIZER, .memory = PLENTY, .steady = true};

struct gpu gpu_;

void gpu_use(void)
{
}

_Noreturn void gpu_failed(const char *call, CUresult result)
{
    abort();
}

void available_look(struct available *a)
{
    pthread_mutex_lock(&node.lock);
    node.seen = node.memory > node.pinned ? node.memory - node.pinned : 0;
    node.looks++;
    node.looked = true;
    *a = (struct available){.bytes = node.seen, .total = PLENTY};
    pthread_mutex_unlock(&node.lock);
}

static CUresult pin(void *at, size_t bytes, unsigned flags)
{
    pthread_mutex_lock(&node.lock);
    CHECK(bytes == SLAB);
    bool refused = node.refuses;
    node.pinned += refused ? 0 : SLAB;
    CHECK(node.pinned <= POOL);
    CHECK(refused || !node.steady || node.memory >= RESERVE + node.pinned);
    pthread_mutex_unlock(&node.lock);
    return refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Only while memory is short, after a look, and with nothing in it. */
static CUresult unpin(void *at)
{
    pthread_mutex_lock(&mover_lock);
    for (const struct guest *g = guests; g; g = g->hh.next)
        for (const struct range *r = g->ranges; r; r = r->hh.next)
            for (uint32_t i = 0; i < r->pinned.n; i++) {
                const uint8_t *host = store_piece(r, i).host;
                CHECK(host < (uint8_t *)at || host >= (uint8_t *)at + SLAB);
            }
    pthread_mutex_unlock(&mover_lock);
    pthread_mutex_lock(&node.lock);
    CHECK(node.looked && node.seen < RESERVE);
    node.looked = false;
    node.returns++;
    node.pinned -= SLAB;
    pthread_mutex_unlock(&node.lock);
    return CUDA_SUCCESS;
}

static void set_memory(uint64_t bytes)
{
    pthread_mutex_lock(&node.lock);
    node.memory = bytes;
    pthread_mutex_unlock(&node.lock);
}

static void set_refuses(void)
{
    pthread_mutex_lock(&node.lock);
    node.refuses = true;
    pthread_mutex_unlock(&node.lock);
}

static uint64_t returns(void)
{
    pthread_mutex_lock(&node.lock);
    uint64_t n = node.returns;
    pthread_mutex_unlock(&node.lock);
    return n;
}

static void await_looks(uint64_t more)
{
    pthread_mutex_lock(&node.lock);
    for (uint64_t until = node.looks + more; node.looks < until;) {
        pthread_mutex_unlock(&node.lock);
        usleep(1000);
        pthread_mutex_lock(&node.lock);
    }
    pthread_mutex_unlock(&node.lock);
}

/* --- the pool, with mover_lock --- */

static uint64_t pinned(void)
{
    uint64_t used, bytes;
    pool_count(&used, &bytes);
    CHECK(used <= bytes);
    return bytes;
}

static uint64_t used(void)
{
    uint64_t bytes, all;
    pool_count(&bytes, &all);
    return bytes;
}

#define AWAIT(condition)                                                                                     \
    while (!(condition))                                                                                     \
    pthread_cond_wait(&pool_change, &mover_lock)

/* A pool that is pinned from the start. Takes mover_lock. */
static void begin(uint64_t memory)
{
    alarm(SECONDS);
    gpu_cu(cuMemHostRegister) = pin;
    gpu_cu(cuMemHostUnregister) = unpin;
    setenv("PRISM_HOST_RESERVE", "104857600", 1);
    node.memory = memory;
    spill_begin(folder);
    store_begin(POOL, 1);
    pthread_mutex_lock(&mover_lock);
    pool_prepare(POOL);
}

/* --- guests --- */

#define GUESTS 8u
#define RANGES 16u

static struct guest *players[GUESTS];

static uint8_t byte_of(const struct range *r, uint64_t at)
{
    return (uint8_t)((r->guest->rank * 31 + r->number * 7 + at / 4096 + 1) % 251);
}

static void join(void)
{
    for (uint32_t i = 0; i < GUESTS; i++)
        players[i] = guest_add(i, -1);
}

static void fill(const struct range *r)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < r->pinned.n; i++) {
        struct piece p = store_piece(r, i);
        for (uint64_t k = 0; k < p.bytes; k += 4096, at += 4096)
            memset(p.host + k, byte_of(r, at), 4096);
    }
}

static void check_bytes(const struct range *r, const uint8_t *bytes, uint64_t at, uint64_t n)
{
    for (uint64_t k = 0; k < n; k += 4096)
        CHECK(bytes[k] == byte_of(r, at + k) && bytes[k + 4095] == byte_of(r, at + k));
}

/* As a copy of it into the device reads it. Without the lock; it is leaving. */
static void check_range(const struct range *r)
{
    static uint8_t data[UNIT_BYTES] __attribute__((aligned(4096)));
    uint64_t at = 0;
    if (r->pinned.n) {
        for (uint32_t i = 0; i < r->pinned.n; i++) {
            struct piece p = store_piece(r, i);
            uint64_t n = p.bytes < r->bytes - at ? p.bytes : r->bytes - at;
            check_bytes(r, p.host, at, n);
            at += p.bytes;
        }
        return;
    }
    struct spill_sum *sum = spill_sum_begin();
    for (uint64_t n; at < r->bytes; at += n) {
        n = r->bytes - at < UNIT_BYTES ? r->bytes - at : UNIT_BYTES;
        spill_read(r, at, data, n, sum);
        check_bytes(r, data, at, n);
    }
    spill_check(r, sum);
}

static void write_file(struct range *r)
{
    static uint8_t data[UNIT_BYTES] __attribute__((aligned(4096)));
    struct spill_sum *sum = spill_sum_begin();
    for (uint64_t at = 0, n; at < r->bytes; at += n) {
        n = r->bytes - at < UNIT_BYTES ? r->bytes - at : UNIT_BYTES;
        for (uint64_t k = 0; k < n; k += 4096)
            memset(data + k, byte_of(r, at + k), 4096);
        spill_write(r, at, data, n, sum);
    }
    r->hash = spill_sum_end(sum);
}

/* With the lock: space for a range, which is then on its way out. */
static struct range *put(struct guest *g, uint64_t number, uint64_t bytes)
{
    struct range *r = guest_add_range(g, number, bytes);
    if (!store_take(r))
        spill_take(r);
    return r;
}

/* With the lock, which is given up meanwhile. */
static void land(struct range *r)
{
    pthread_mutex_unlock(&mover_lock);
    if (r->pinned.n)
        fill(r);
    else
        write_file(r);
    pthread_mutex_lock(&mover_lock);
    if (r->pinned.n)
        store_keep(r);
    else
        r->place = RANGE_DISK;
}

static void take_away(struct range *r)
{
    store_await_writing(r);
    pthread_mutex_unlock(&mover_lock);
    check_range(r);
    pthread_mutex_lock(&mover_lock);
    guest_drop_range(r);
}

static void take_all_away(void)
{
    struct range *r, *next;
    for (uint32_t i = 0; i < GUESTS; i++)
        HASH_ITER(hh, players[i]->ranges, r, next)
            take_away(r);
    CHECK(used() == 0);
}

static uint32_t on_disk(const struct guest *g)
{
    uint32_t n = 0;
    for (const struct range *r = g->ranges; r; r = r->hh.next)
        n += r->place == RANGE_DISK;
    return n;
}

/* Guest k fills slab k with two ranges, and leaves as the k-th. */
static void fill_slabs(bool land_too)
{
    join();
    AWAIT(pinned() == POOL);
    for (uint32_t k = 0; k < GUESTS; k++) {
        players[k]->left = k + 1;
        for (uint32_t i = 0; i < 2; i++) {
            struct range *r = put(players[k], i, SLAB / 2);
            CHECK(r->pinned.n == 1 && pool_slab_of(r->pinned.list[0].first) == k);
            if (land_too)
                land(r);
        }
    }
}

/* --- processes, one a test --- */

static void shrinks_and_grows(void)
{
    begin(PLENTY);
    AWAIT(pinned() == POOL);
    CHECK(returns() == 0);
    set_memory(RESERVE + 20 * MIB);
    AWAIT(pinned() == 2 * SLAB);
    CHECK(returns() == 6);
    set_memory(RESERVE + 5 * SLAB);
    AWAIT(pinned() == 5 * SLAB);
    set_memory(RESERVE);
    AWAIT(pinned() == 0);
    set_memory(PLENTY);
    AWAIT(pinned() == POOL);
}

/* As on a virtual machine whose memory grows as it is used. */
static void grows_with_memory(void)
{
    begin(RESERVE - MIB);
    pthread_mutex_unlock(&mover_lock);
    await_looks(3);
    pthread_mutex_lock(&mover_lock);
    for (uint64_t n = 1; n <= POOL / SLAB; n++) {
        CHECK(pinned() == (n - 1) * SLAB);
        set_memory(RESERVE + n * SLAB + MIB);
        AWAIT(pinned() == n * SLAB);
    }
    CHECK(returns() == 0);
}

/* Nothing is free: the slabs of those that left last are written. */
static void spills(void)
{
    begin(PLENTY);
    fill_slabs(true);
    set_memory(RESERVE + 5 * SLAB);
    AWAIT(pinned() == 5 * SLAB);
    for (uint32_t k = 0; k < GUESTS; k++)
        CHECK(on_disk(players[k]) == (k >= GUESTS - 3 ? 2 : 0));
    CHECK(spill_total() == 3 * SLAB && used() == 5 * SLAB);
    set_memory(0);
    AWAIT(pinned() == 0);
    CHECK(spill_total() == POOL && used() == 0);
    set_memory(PLENTY);
    AWAIT(pinned() == POOL);
    take_all_away();
}

/* One unit of each slab is in use: that fits into two, and nothing is written. */
static void moves(void)
{
    begin(PLENTY);
    fill_slabs(true);
    take_all_away();
    for (uint32_t i = 0; i < POOL / UNIT_BYTES; i++)
        land(put(players[i % GUESTS], 100 + i, UNIT_BYTES));
    for (uint32_t i = 0; i < POOL / UNIT_BYTES; i++)
        if (i % 4 != 1)
            take_away(guest_range(players[i % GUESTS], 100 + i));
    CHECK(used() == POOL / 4);
    set_memory(RESERVE + 2 * SLAB);
    AWAIT(pinned() == 2 * SLAB);
    CHECK(spill_total() == 0 && used() == 2 * SLAB);
    take_all_away();
}

/* What is on its way is waited for. */
static void waits_for_copies(void)
{
    begin(PLENTY);
    fill_slabs(false);
    set_memory(0);
    pthread_mutex_unlock(&mover_lock);
    await_looks(3);
    pthread_mutex_lock(&mover_lock);
    CHECK(pinned() == POOL && returns() == 0);
    for (uint32_t k = 0; k < GUESTS; k++) {
        land(guest_range(players[k], 0));
        CHECK(pinned() >= POOL - k * SLAB);
        if (k % 2)
            land(guest_range(players[k], 1));
        else
            guest_drop_range(guest_range(players[k], 1)); /* its rank has ended */
    }
    AWAIT(pinned() == 0);
    take_all_away();
}

/* Nothing may be pinned: copies do not wait for ever, but go to the file. */
static void goes_to_file(void)
{
    begin(0);
    join();
    for (uint32_t i = 0; i < 4; i++) {
        struct range *r = put(players[0], i, SLAB);
        CHECK(!r->pinned.n);
        land(r);
    }
    CHECK(on_disk(players[0]) == 4 && pinned() == 0);
    set_memory(PLENTY);
    AWAIT(pinned() == POOL);
    CHECK(put(players[0], 4, SLAB)->pinned.n);
}

/* The system refuses to pin: that is the limit from then on. */
static void system_refuses(void)
{
    begin(RESERVE + 2 * SLAB);
    join();
    AWAIT(pinned() == 2 * SLAB);
    set_refuses();
    set_memory(PLENTY);
    for (uint32_t i = 0; i < 4; i++)
        land(put(players[i], 0, SLAB));
    CHECK(pinned() == 2 * SLAB && spill_total() == 2 * SLAB);
    take_all_away();
}

/* A file system in memory gives none back: what lies in the pool stays. */
static void spill_folder_is_memory(void)
{
    char memory[] = "/dev/shm/prism-store-test.XXXXXX";
    if (!mkdtemp(memory))
        exit(0);
    begin(PLENTY);
    spill_begin(memory);
    rmdir(memory);
    if (!spill_is_memory())
        exit(0);
    fill_slabs(true);
    for (uint32_t k = 1; k < GUESTS; k += 2)
        take_away(guest_range(players[k], 0));
    set_memory(0);
    /* Four halves fit into two slabs; twelve halves are left. */
    AWAIT(pinned() == 6 * SLAB);
    pthread_mutex_unlock(&mover_lock);
    await_looks(3);
    pthread_mutex_lock(&mover_lock);
    CHECK(pinned() == 6 * SLAB && used() == 6 * SLAB && spill_total() == 0);
    take_all_away();
    AWAIT(pinned() == 0);
}

/* --- anything at any time --- */

static uint64_t number(uint64_t *seed, uint64_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

static uint64_t given_seed;
static bool over; /* with mover_lock */

/* Takes in what lies out, in an order of its own. */
static void *brings_back(void *arg)
{
    uint64_t seed = given_seed + 1;
    pthread_mutex_lock(&mover_lock);
    while (!over) {
        struct guest *g = players[number(&seed, GUESTS)];
        struct range *r = guest_range(g, number(&seed, RANGES));
        if (r && r->place != RANGE_MOVING)
            take_away(r);
        pthread_mutex_unlock(&mover_lock);
        usleep((useconds_t)number(&seed, 2000));
        pthread_mutex_lock(&mover_lock);
    }
    pthread_mutex_unlock(&mover_lock);
    return arg;
}

static void *changes_memory(void *arg)
{
    static const uint64_t levels[] = {0, RESERVE - MIB, RESERVE, RESERVE + 2 * SLAB, RESERVE + 5 * SLAB, PLENTY, PLENTY};
    uint64_t seed = given_seed + 2;
    pthread_mutex_lock(&mover_lock);
    while (!over) {
        pthread_mutex_unlock(&mover_lock);
        set_memory(levels[number(&seed, sizeof levels / sizeof *levels)]);
        usleep((useconds_t)number(&seed, 250000));
        pthread_mutex_lock(&mover_lock);
    }
    pthread_mutex_unlock(&mover_lock);
    return arg;
}

static void random_moves(void)
{
    enum { STEPS = 1500 };
    pthread_t threads[2];
    uint64_t seed = given_seed, departures = 0;
    node.steady = false;
    begin(PLENTY);
    join();
    pthread_create(&threads[0], NULL, brings_back, NULL);
    pthread_create(&threads[1], NULL, changes_memory, NULL);
    for (int step = 0; step < STEPS; step++) {
        struct guest *g = players[number(&seed, GUESTS)];
        uint64_t i = number(&seed, RANGES);
        if (!guest_range(g, i)) {
            g->left = ++departures;
            land(put(g, i, 4096 * (1 + number(&seed, 5 * UNIT_BYTES / 4096))));
        }
        pthread_mutex_unlock(&mover_lock);
        usleep((useconds_t)number(&seed, 2000));
        pthread_mutex_lock(&mover_lock);
    }
    over = true;
    pthread_mutex_unlock(&mover_lock);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    pthread_mutex_lock(&mover_lock);
    set_memory(0);
    AWAIT(pinned() == 0);
    for (uint32_t k = 0; k < GUESTS; k++)
        CHECK(on_disk(players[k]) == HASH_COUNT(players[k]->ranges));
    set_memory(PLENTY);
    AWAIT(pinned() == POOL);
    take_all_away();
}

/* --- tests --- */

static void pass(void (*scenario)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        scenario();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define TEST(scenario)                                                                                       \
    static void test_##scenario(void **state)                                                                \
    {                                                                                                        \
        (void)state;                                                                                         \
        pass(scenario);                                                                                      \
    }
TEST(shrinks_and_grows)
TEST(grows_with_memory)
TEST(spills)
TEST(moves)
TEST(waits_for_copies)
TEST(goes_to_file)
TEST(system_refuses)
TEST(spill_folder_is_memory)

/* PRISM_TEST_POOL_CASES: more of them. */
static void test_random_moves(void **state)
{
    (void)state;
    const char *cases = getenv("PRISM_TEST_POOL_CASES");
    for (int i = 0; i < (cases ? atoi(cases) : 2); i++) {
        given_seed = 11 + (uint64_t)i * 100;
        pass(random_moves);
    }
}

static int set_up(void **state)
{
    (void)state;
    setenv("PRISM_LOG", "error", 0);
    prism_log_init("mover_store");
    return !mkdtemp(folder);
}

static int clean_up(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrinks_and_grows), cmocka_unit_test(test_grows_with_memory),
        cmocka_unit_test(test_spills),            cmocka_unit_test(test_moves),
        cmocka_unit_test(test_waits_for_copies),  cmocka_unit_test(test_goes_to_file),
        cmocka_unit_test(test_system_refuses),    cmocka_unit_test(test_spill_folder_is_memory),
        cmocka_unit_test(test_random_moves),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
