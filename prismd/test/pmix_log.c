/* The PMIx log: what is found for a rank that asks, and that damaged files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/pmix/pmix_log.h"

/* Keys as libpmix packs them: with their NUL. */
#define FIRST  "addr\0one"
#define SECOND "addr\0one\0more\0two"

static struct pmix_log *sample(void)
{
    struct pmix_log *log = pmix_log_create(8);
    pmix_log_set_version(log, "4.2");
    pmix_log_set_version(log, "9.9");
    pmix_log_add(log, 3, 1, FIRST, sizeof FIRST);
    pmix_log_add(log, 5, 2, FIRST, sizeof FIRST);
    pmix_log_add(log, 3, 2, FIRST, sizeof FIRST); /* nothing new */
    pmix_log_add(log, 3, 4, SECOND, sizeof SECOND);
    pmix_log_add(log, 9, 1, FIRST, sizeof FIRST); /* outside */
    return log;
}

static void check_sample(const struct pmix_log *log)
{
    assert_int_equal(pmix_log_count(log), 3);
    assert_string_equal(pmix_log_version(log), "4.2");
    assert_int_equal(pmix_log_find(log, 3, 0, "")->fence, 1); /* a get waits for the first commit */
    assert_int_equal(pmix_log_find(log, 3, 3, "addr")->fence, 1);
    assert_int_equal(pmix_log_find(log, 3, 3, "more")->fence, 4); /* and for its key */
    assert_int_equal(pmix_log_find(log, 3, 3, "mor")->fence, 4);  /* unknown key: the last word */
    assert_int_equal(pmix_log_find(log, 3, 4, "addr")->fence, 4);
    assert_int_equal(pmix_log_find(log, 3, 9, "addr")->len, sizeof SECOND);
    assert_null(pmix_log_find(log, 4, 9, ""));
    assert_null(pmix_log_find(log, 8, 9, ""));
    assert_true(pmix_log_mentions(log, "more"));
    assert_false(pmix_log_mentions(log, "less"));
}

static void test_find(void **state)
{
    struct pmix_log *log = sample();
    check_sample(log);
    pmix_log_destroy(log);
}

static void test_round_trip(void **state)
{
    struct pmix_log *log = sample();
    struct bytes b = {0};
    struct prism_error err = {0};
    pmix_log_encode(log, &b);
    pmix_log_destroy(log);
    assert_memory_equal(b.data, "PRSMPMIX\1\0\0\0\10\0\0\0004.2\0", 20);
    log = pmix_log_decode(b.data, b.len, &err);
    assert_non_null(log);
    check_sample(log);
    pmix_log_destroy(log);
    bytes_free(&b);
}

/* Every single changed byte, every cut. */
static void test_damage(void **state)
{
    struct pmix_log *log = sample();
    struct bytes b = {0};
    pmix_log_encode(log, &b);
    pmix_log_destroy(log);
    for (size_t i = 0; i < b.len; i++) {
        struct prism_error err = {0};
        uint8_t *copy = malloc(b.len);
        memcpy(copy, b.data, b.len);
        copy[i] ^= 0x41;
        assert_null(pmix_log_decode(copy, b.len, &err));
        assert_int_equal(err.code, PRISM_EXIT_TRACE);
        free(copy);
        copy = malloc(i + 1); /* exactly as long: a sanitizer sees a read behind it */
        memcpy(copy, b.data, i);
        assert_null(pmix_log_decode(copy, i, NULL));
        free(copy);
    }
    struct prism_error err = {0};
    b.data[8] = 2;
    assert_null(pmix_log_decode(b.data, b.len, &err));
    assert_non_null(strstr(err.text, "version 2, this Prism reads version 1"));
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
