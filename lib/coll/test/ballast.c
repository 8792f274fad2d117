/* ballast.c - the table of what communicators cost: between, below and beyond measured sizes, and bad files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "coll/ballast.h"

static int load(struct coll_ballast *b, const char *text, struct prism_error *err)
{
    char path[] = "/tmp/prism-ballast-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    int rc = coll_ballast_load(b, path, err);
    unlink(path);
    return rc;
}

#define TABLE(sizes) "{\"format\": \"prism-ballast\", \"version\": 1, \"nccl\": 22809, \"process_bytes\": 7, \"channels\": 0, \"sizes\": [" sizes "]}"

static void sizes_between_and_beyond(void **state)
{
    (void)state;
    struct coll_ballast b;
    struct prism_error err = {0};
    assert_int_equal(load(&b, TABLE("{\"size\": 2, \"bytes\": 100}, {\"size\": 4, \"bytes\": 200}, {\"size\": 8, \"bytes\": 1000}"), &err), 0);
    assert_int_equal(b.nccl, 22809);
    static const struct {
        int size;
        uint64_t bytes;
    } want[] = {{1, 0}, {2, 100}, {3, 150}, {4, 200}, {6, 600}, {8, 1000}, {4096, 1000}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(coll_ballast_bytes(&b, want[i].size, COLL_BALLAST_BOTH), want[i].bytes);
    assert_int_equal(coll_ballast_missing(&b, 8, 2, COLL_BALLAST_BOTH, COLL_BALLAST_BOTH), 900);
    assert_int_equal(coll_ballast_missing(&b, 8, 0, COLL_BALLAST_BOTH, COLL_BALLAST_BOTH), 1007);
    assert_int_equal(coll_ballast_missing(&b, 8, 0, COLL_BALLAST_BOTH, -1), 1000);
    assert_int_equal(coll_ballast_missing(&b, 2, 2, COLL_BALLAST_BOTH, COLL_BALLAST_BOTH), 0);
    assert_int_equal(coll_ballast_missing(&b, 1, 0, COLL_BALLAST_BOTH, COLL_BALLAST_BOTH), 7);
    assert_int_equal(coll_ballast_missing(&b, 1, 0, COLL_BALLAST_BOTH, -1), 0);
    coll_ballast_clear(&b);
}

/* It has no neighbours, so it says nothing of the others. */
static void one_rank_is_only_itself(void **state)
{
    (void)state;
    struct coll_ballast b;
    struct prism_error err = {0};
    assert_int_equal(load(&b, TABLE("{\"size\": 1, \"bytes\": 30}, {\"size\": 4, \"bytes\": 200}, {\"size\": 8, \"bytes\": 1000}"), &err), 0);
    static const uint64_t want[] = {0, 30, 200, 200, 200, 400};
    for (int size = 0; size < 6; size++)
        assert_int_equal(coll_ballast_bytes(&b, size, COLL_BALLAST_BOTH), want[size]);
    assert_int_equal(coll_ballast_missing(&b, 1, 0, COLL_BALLAST_BOTH, COLL_BALLAST_BOTH), 37);
    coll_ballast_clear(&b);
    assert_int_equal(load(&b, TABLE("{\"size\": 1, \"bytes\": 30}"), &err), 0);
    assert_int_equal(coll_ballast_bytes(&b, 1, COLL_BALLAST_BOTH), 30);
    assert_int_equal(coll_ballast_bytes(&b, 2, COLL_BALLAST_BOTH), 0);
    coll_ballast_clear(&b);
}

static void what_it_is_not_used_for_costs_nothing(void **state)
{
    (void)state;
    struct coll_ballast b;
    struct prism_error err = {0};
    assert_int_equal(load(&b, TABLE("{\"size\": 2, \"bytes\": 100, \"collective_bytes\": 30, \"message_bytes\": 60},"
                                    "{\"size\": 4, \"bytes\": 200, \"collective_bytes\": 50}"), &err), 0);
    assert_int_equal(coll_ballast_bytes(&b, 2, COLL_BALLAST_BOTH), 100);
    assert_int_equal(coll_ballast_bytes(&b, 2, COLL_BALLAST_MESSAGES), 70);
    assert_int_equal(coll_ballast_bytes(&b, 2, COLL_BALLAST_COLLECTIVES), 40);
    assert_int_equal(coll_ballast_bytes(&b, 2, 0), 10);
    assert_int_equal(coll_ballast_bytes(&b, 4, COLL_BALLAST_MESSAGES), 150);
    assert_int_equal(coll_ballast_bytes(&b, 3, COLL_BALLAST_MESSAGES), 110);
    assert_int_equal(coll_ballast_missing(&b, 4, 2, COLL_BALLAST_MESSAGES, COLL_BALLAST_MESSAGES), 80);
    assert_int_equal(coll_ballast_missing(&b, 4, 0, 0, COLL_BALLAST_BOTH), 157);
    coll_ballast_clear(&b);
}

/* The process's part, too: code that is loaded when it is first needed. */
static void a_process_without_collectives(void **state)
{
    (void)state;
    struct coll_ballast b;
    struct prism_error err = {0};
    assert_int_equal(load(&b, "{\"format\": \"prism-ballast\", \"version\": 1, \"nccl\": 22809, \"process_bytes\": 70, \"process_collective_bytes\": 40, "
                              "\"process_message_bytes\": 20, \"sizes\": [{\"size\": 2, \"bytes\": 100}]}", &err), 0);
    const int want[] = {10, 50, 30, 70}; /* by enum coll_ballast_use */
    for (int uses = 0; uses <= COLL_BALLAST_BOTH; uses++) {
        assert_int_equal(coll_ballast_missing(&b, 2, 0, COLL_BALLAST_BOTH, uses), 100 + want[uses]);
        assert_int_equal(coll_ballast_missing(&b, 2, 2, COLL_BALLAST_BOTH, uses), 0);
    }
    coll_ballast_clear(&b);
}

static void bad_tables_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "{}", TABLE(""), TABLE("{\"size\": 0, \"bytes\": 5}"), TABLE("{\"size\": 2, \"bytes\": -5}"), TABLE("{\"size\": 2, \"bytes\": 5, \"message_bytes\": -1}"),
                                      TABLE("{\"size\": 2, \"bytes\": 5, \"collective_bytes\": 3, \"message_bytes\": 3}"),
                                      TABLE("{\"size\": 4, \"bytes\": 5}, {\"size\": 2, \"bytes\": 5}"),
                                      "{\"format\": \"prism-ballast\", \"version\": 1, \"nccl\": 22809, \"process_bytes\": 7, "
                                      "\"process_collective_bytes\": 8, \"sizes\": [{\"size\": 2, \"bytes\": 5}]}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct coll_ballast b;
        struct prism_error err = {0};
        assert_int_equal(load(&b, bad[i], &err), -1);
        assert_int_equal(err.code, PRISM_EXIT_USAGE);
        assert_non_null(strstr(err.text, "PRISM_BALLAST"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_between_and_beyond), cmocka_unit_test(one_rank_is_only_itself), cmocka_unit_test(what_it_is_not_used_for_costs_nothing),
                                       cmocka_unit_test(a_process_without_collectives), cmocka_unit_test(bad_tables_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
