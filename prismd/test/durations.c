/* durations.c - the table of measured durations: what it tells apart, between nodes, on disk, before the profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "coll/types.h"
#include "prismd/predict/duration.h"
#include "prismd/predict/durations.h"

static const struct graph_part reduce = {PRISM_OP_ALLREDUCE, COLL_FLOAT32, COLL_REDOP_SUM, 0, -1, 1024};
static const struct graph_part larger = {PRISM_OP_ALLREDUCE, COLL_FLOAT32, COLL_REDOP_SUM, 0, -1, 2048};
static const struct graph_part wider = {PRISM_OP_ALLREDUCE, COLL_FLOAT64, COLL_REDOP_SUM, 0, -1, 1024};
static const struct graph_part exchange[2] = {{PRISM_OP_SEND, COLL_FLOAT32, 0, 0, 1, 8}, {PRISM_OP_RECV, COLL_FLOAT32, 0, 0, 1, 8}};

static struct durations *some(void)
{
    struct durations *d = durations_create();
    uint32_t a = durations_entry(d, 3, &reduce, 1), b = durations_entry(d, 3, exchange, 2);
    durations_add(d, a, 9000000); /* a hiccup */
    durations_add(d, a, 20000);
    durations_add(d, a, 21000);
    durations_add(d, b, 7000);
    return d;
}

static void check(const struct durations *d)
{
    assert_int_equal(durations_count(d), 2);
    assert_int_equal((int)durations_find(d, 3, &reduce, 1), 21000);
    assert_int_equal((int)durations_find(d, 3, exchange, 2), 7000);
}

static void groups_are_told_apart(void **state)
{
    (void)state;
    struct durations *d = some();
    check(d);
    assert_int_equal(durations_entry(d, 3, &reduce, 1), 0);
    assert_true(durations_find(d, 4, &reduce, 1) < 0);
    assert_true(durations_find(d, 3, &larger, 1) < 0);
    assert_true(durations_find(d, 3, &wider, 1) < 0);
    assert_true(durations_find(d, 3, exchange, 1) < 0);
    assert_true(durations_find(NULL, 3, &reduce, 1) < 0);
    durations_add(d, DURATIONS_NONE, 1);
    assert_int_equal(durations_entry(d, 4, &reduce, 1), 2); /* wanted, but never measured */
    assert_true(durations_find(d, 4, &reduce, 1) < 0);
    check(d);
    durations_destroy(d);
}

static void the_latest_samples_count(void **state)
{
    (void)state;
    struct durations *d = some();
    for (int i = 0; i < 3 * DURATIONS_SAMPLES; i++)
        durations_add(d, 0, i < 2 * DURATIONS_SAMPLES ? 1 : 50000);
    assert_int_equal((int)durations_find(d, 3, &reduce, 1), 50000);
    durations_destroy(d);
}

static void nodes_are_added_up(void **state)
{
    (void)state;
    struct durations *one = some(), *all = durations_create();
    struct bytes b = {0};
    durations_put(one, &b);
    durations_put(NULL, &b);
    for (int i = 0; i < 2; i++) {
        struct bytes_reader r = bytes_reader_init(b.data, b.len);
        assert_int_equal(durations_take(all, &r), 0);
        assert_int_equal(durations_take(all, &r), 0);
    }
    check(all);
    for (size_t n = 0; n + 4 < b.len; n++) {
        struct bytes_reader r = bytes_reader_init(b.data, n);
        assert_int_equal(durations_take(all, &r), -1);
    }
    bytes_free(&b);
    durations_destroy(one);
    durations_destroy(all);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void on_disk(void **state)
{
    (void)state;
    struct prism_error err = {0};
    struct durations *d = some();
    char dir[] = "/tmp/prism-durations-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/durations.json", dir);
    struct durations *none = durations_load(path, &err);
    assert_non_null(none);
    assert_int_equal(durations_count(none), 0);
    durations_destroy(none);
    assert_int_equal(durations_save(d, path, &err), 0);
    struct durations *again = durations_load(path, &err);
    assert_non_null(again);
    check(again);
    durations_destroy(again);
#define FILE_OF(list) "{\"format\":\"prism-durations\",\"version\":1,\"durations\":" list "}"
#define ENTRY(comm, bytes, sample)                                                                                               \
    FILE_OF("[{\"communicator\":" comm ",\"operations\":1,\"signature\":\"1\",\"first\":\"AllReduce\",\"bytes\":" bytes      \
            ",\"samples\":[" sample "]}]")
    static const char *const bad[] = {"", "[]", "{\"format\":\"prism-durations\",\"version\":2,\"durations\":[]}",
                                      FILE_OF("[{}]"), FILE_OF("3"), ENTRY("4294967296", "1", "1"), ENTRY("1", "-1", "1"),
                                      ENTRY("1", "1", "-1"), ENTRY("1", "1", "1e300")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(path, bad[i]);
        assert_null(durations_load(path, &err));
        assert_int_equal(err.code, PRISM_EXIT_TRACE);
        assert_non_null(strstr(err.text, path));
    }
    unlink(path);
    rmdir(dir);
    durations_destroy(d);
}

static void they_come_before_the_profile(void **state)
{
    (void)state;
    struct durations *d = some();
    struct coll_network network;
    struct coll_shape shapes[4] = {{0}, {0}, {0}, {.size = 2, .nodes = 1}};
    coll_network_default(&network);
    struct duration_model m = {.network = &network, .shapes = shapes};
    double profile = duration_ns(&m, NULL, 3, 0, &reduce, 1), other = duration_ns(&m, NULL, 3, 0, &larger, 1);
    m.measured = d;
    assert_true(profile > 0 && profile != 21000);
    assert_true(duration_ns(&m, NULL, 3, 0, &reduce, 1) == 21000);
    assert_true(duration_ns(&m, NULL, 3, 0, &larger, 1) == other);
    coll_network_clear(&network);
    durations_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_told_apart), cmocka_unit_test(the_latest_samples_count),
        cmocka_unit_test(nodes_are_added_up),    cmocka_unit_test(on_disk),
        cmocka_unit_test(they_come_before_the_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
