/* scale.c - what thousands of ranks of a node need: the board, limits told before they are hit, progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "prismd/gates/board.h"
#include "prismd/ranks/limits.h"
#include "prismd/ranks/region.h"
#include "prismd/capture/progress.h"
#include "proto/board.h"

enum { WORLD = 300, HERE = 100 }; /* every third rank is on this node */

static uint32_t looked[WORLD];

static void look(void *arg, struct rank *r)
{
    assert_ptr_equal(arg, looked);
    looked[r->number]++;
}

static uint32_t take(struct daemon *d)
{
    uint32_t n = 0;
    memset(looked, 0, sizeof looked);
    board_take(d, look, looked);
    for (uint32_t i = 0; i < WORLD; i++)
        n += looked[i];
    return n;
}

static void board_tells_who_arrived(void **state)
{
    static struct rank ranks[WORLD];
    static struct rank *all[WORLD];
    struct conf conf = {.world = WORLD};
    struct daemon d = {.conf = &conf, .ranks = all};
    struct prism_error err = {0};
    (void)state;
    for (uint32_t i = 0; i < WORLD; i++) {
        ranks[i].number = i;
        all[i] = i % 3 ? NULL : &ranks[i];
    }
    assert_int_equal(board_create(&d, &err), 0);
    assert_int_equal(board_seats(&d), HERE);
    /* As a rank maps it. */
    struct board *b = mmap(NULL, board_size(HERE), PROT_READ | PROT_WRITE, MAP_SHARED, board_fd(&d), 0);
    assert_ptr_not_equal(b, MAP_FAILED);
    assert_int_equal(take(&d), 0);
    for (uint32_t i = 0; i < WORLD; i += 3) { /* seats are all different */
        b->flags[ranks[i].seat] = 1;
        b->bell = 1;
        assert_int_equal(*board_bell(&d), 1);
        assert_int_equal(take(&d), 1);
        assert_int_equal(looked[i], 1);
        assert_int_equal(*board_bell(&d), 0);
    }
    b->flags[ranks[297].seat] = b->flags[ranks[0].seat] = b->flags[ranks[150].seat] = 1;
    assert_int_equal(take(&d), 0); /* no bell yet: the writer is between its two writes, and its bell will come */
    b->bell = 1;
    assert_int_equal(take(&d), 3);
    assert_int_equal(take(&d), 0);
    board_mark(&d, &ranks[9]);
    assert_int_equal(take(&d), 1);
    assert_int_equal(looked[9], 1);
    munmap(b, board_size(HERE));
    board_destroy(&d);
    assert_null(d.board);
    assert_int_equal(board_fd(&d), -1);
    assert_int_equal(take(&d), 0);
}

static void few_ranks_have_no_board(void **state)
{
    static struct rank ranks[BOARD_LEAST - 1];
    struct rank *all[BOARD_LEAST - 1];
    struct conf conf = {.world = BOARD_LEAST - 1};
    struct daemon d = {.conf = &conf, .ranks = all};
    struct prism_error err = {0};
    (void)state;
    for (uint32_t i = 0; i < BOARD_LEAST - 1; i++)
        all[i] = &ranks[i];
    assert_int_equal(board_create(&d, &err), 0);
    assert_null(d.board);
    assert_int_equal(board_seats(&d), 0);
    assert_null(board_bell(&d));
}

static void limits_say_the_way_out(void **state)
{
    struct limits l = {20000, 32768, UINT64_MAX};
    struct prism_error err = {0};
    (void)state;
    /* Four nodes of one machine: what full capture is made for fits the limits of an ordinary one. */
    assert_int_equal(limits_check(&l, 8192, 2048, 4, true, &err), 0);
    assert_int_equal(limits_check(&l, 8192, 2048, 4, false, &err), 0);
    l.files = 8192;
    assert_int_equal(limits_check(&l, 8192, 2048, 4, false, &err), 0);
    assert_int_equal(limits_check(&l, 8192, 2048, 4, true, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_SYSTEM);
    assert_non_null(strstr(err.text, "ulimit -n"));
    assert_non_null(strstr(err.text, "8192"));
    l.files = 20000;
    err = (struct prism_error){0};
    l.threads = 10000;
    assert_int_equal(limits_check(&l, 8192, 2048, 4, false, &err), -1);
    assert_non_null(strstr(err.text, "pid_max"));
    assert_non_null(strstr(err.text, "16384"));
    err = (struct prism_error){0};
    assert_int_equal(limits_check(&l, 8192, 2048, 1, false, &err), 0); /* a machine of its own */
}

static void regions_fit_the_address_space(void **state)
{
    const uint64_t gib = 1ull << 30, none = UINT64_MAX;
    (void)state;
    assert_int_equal(rank_region_bytes(1, gib, none, none), rank_region_bytes(2, gib, none, none));
    for (uint32_t ranks = 1; ranks <= 65536; ranks *= 2) {
        uint64_t bytes = rank_region_bytes(ranks, 1 << 20, none, none);
        assert_true(bytes * ranks <= 32 * 1024 * gib && bytes >= REGION_HEAP_OFFSET + (1 << 20));
    }
    /* What the user asked for is there in any case; a file's limit cannot be passed. */
    assert_int_equal(rank_region_bytes(1, 1024 * gib, none, none), 1024 * gib + REGION_HEAP_OFFSET);
    assert_int_equal(rank_region_bytes(8, gib, 64 * gib, none), 2 * gib);
    assert_int_equal(rank_region_bytes(64, gib, 64 * gib, none), gib + REGION_HEAP_OFFSET);
    assert_int_equal(rank_region_bytes(8, gib, none, 100 << 20), 100 << 20);
}

static void staging_follows_the_memory(void **state)
{
    const uint64_t gib = 1ull << 30, least = 256ull << 20;
    (void)state;
    assert_int_equal(rank_staging(0, 1, 256 * gib), 4 * gib);
    assert_int_equal(rank_staging(0, 16, 256 * gib), 2 * gib);
    assert_int_equal(rank_staging(0, 2048, 24 * gib), least);
    assert_int_equal(rank_staging(0, 0, 0), least);
    assert_int_equal(rank_staging(0, 1, UINT64_MAX), 4 * gib);
    assert_int_equal(rank_staging(1 << 20, 1, 256 * gib), 1 << 20);
}

/* Of a node full of ranks: memory only for what is written, which the rank's end of the descriptor sees. */
static void regions_of_a_full_node(void **state)
{
    enum { RANKS = 2048 };
    static struct rank ranks[RANKS];
    struct conf conf = {.world = RANKS, .staging = 256 << 20};
    struct daemon d = {.conf = &conf, .here = RANKS};
    (void)state;
    for (uint32_t i = 0; i < RANKS; i++) {
        struct rank *r = &ranks[i];
        r->daemon = &d;
        assert_int_equal(rank_region_make(r), 0);
        assert_true(r->region_size >= REGION_HEAP_OFFSET + conf.staging);
        r->region[r->region_size - 1] = (uint8_t)i;
        size_t size = r->region_size;
        uint8_t *theirs = region_map(r->region_fd, PROT_READ, &size);
        assert_non_null(theirs);
        assert_int_equal(size, r->region_size);
        assert_int_equal(theirs[size - 1], (uint8_t)i);
        munmap(theirs, size);
        close(r->region_fd);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        munmap(ranks[i].region, ranks[i].region_size);
}

static void limits_of_this_machine(void **state)
{
    struct limits l = limits_read();
    (void)state;
    assert_in_range(l.files, 16, UINT64_MAX);
    assert_in_range(l.threads, 16, UINT64_MAX);
    assert_in_range(l.memory, 1 << 20, UINT64_MAX - 1);
}

static void expect_line(const struct progress *p, double rate, double seconds, double ending, uint32_t wanted, const char *expected)
{
    char line[400];
    progress_line(p, rate, seconds, ending, wanted, line, sizeof line);
    assert_string_equal(line, expected);
}

static void progress_is_told(void **state)
{
    struct progress p = {.ranks = 8192, .began = 2048, .groups = 999};
    (void)state;
    expect_line(&p, 12.3, 20, 0, 0, "capture: 2,048 of 8,192 ranks have begun, 999 groups of operations (12 a second), after 20 s, all will have begun in 60 s");
    p.began = 8192;
    p.groups = 1234567;
    expect_line(&p, 41000, 100, 0, 0, "capture: 8,192 of 8,192 ranks have begun, 1,234,567 groups of operations (41,000 a second), after 1.7 min");
    p.iterations = 2;
    expect_line(&p, 41000, 80, 0, 3, "capture: 8,192 of 8,192 ranks have begun, 1,234,567 groups of operations (41,000 a second), iteration 2, after 80 s, about 80 s left");
    p.ended = 4096;
    expect_line(&p, 0, 60, 5, 0, "capture: 8,192 of 8,192 ranks have begun, 4,096 have ended, 1,234,567 groups of operations (0 a second), iteration 2, after 60 s, about 5 s left");
    char small[24];
    progress_line(&p, 0, 60, 0, 0, small, sizeof small);
    assert_int_equal(strlen(small) < sizeof small, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(board_tells_who_arrived), cmocka_unit_test(few_ranks_have_no_board), cmocka_unit_test(limits_say_the_way_out),
        cmocka_unit_test(regions_fit_the_address_space),
        cmocka_unit_test(staging_follows_the_memory), cmocka_unit_test(regions_of_a_full_node),
        cmocka_unit_test(limits_of_this_machine),  cmocka_unit_test(progress_is_told),
    };
    return cmocka_run_group_tests_name("prismd: scale", tests, NULL, NULL);
}
