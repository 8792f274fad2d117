/* gloo.c - groups on the CPU are told from the keys that PyTorch 2.11 puts into the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/capture/gloo.h"

static void set(struct c10d_log *log, uint32_t author, const char *key)
{
    struct c10d_mutation m = {.kind = C10D_SET, .key = key, .key_len = strlen(key), .value = "x", .value_len = 1};
    assert_int_equal(c10d_log_append(log, author, &m, NULL), 0);
}

static int check(const struct c10d_log *log, uint32_t a, uint32_t b, struct prism_error *err)
{
    const uint32_t live[] = {a, b};
    return gloo_check(log, live, 2, err);
}

static void test_groups(void **state)
{
    struct c10d_log *log = c10d_log_create();
    struct prism_error err = {0};
    set(log, 0, "0//1//cpu//0/0");
    set(log, 1, "0//1//cpu//0/1");
    assert_int_equal(check(log, 0, 1, &err), 0); /* all members run */
    assert_int_equal(check(log, 2, 3, &err), 0); /* none does */
    assert_int_equal(check(log, 1, 2, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_UNSUPPORTED);
    assert_non_null(strstr(err.text, "(\"1\" in the store)"));
    assert_non_null(strstr(err.text, "replayed: rank 0;"));
    c10d_log_destroy(log);
}

/* All absent members, and not one for each key that a member has set; of many, some. */
static void test_absent_members(void **state)
{
    static const struct {
        uint32_t step;
        const char *says;
    } cases[] = {{1, "replayed: ranks 2-31 (30);"}, {3, "replayed: ranks 3,6,9,12,15,18,… (10);"}};
    static const char *const keys[] = {"0//1//cpu//0/0", "0//1//cpu//1/0", NULL};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct c10d_log *log = c10d_log_create();
        struct prism_error err = {0};
        for (uint32_t after = 32; after > 0; after--) {
            uint32_t rank = after - 1;
            for (const char *const *key = keys; rank % cases[i].step == 0 && *key; key++)
                set(log, rank, *key);
        }
        assert_int_equal(check(log, 0, 1, &err), -1);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s", err.text);
        c10d_log_destroy(log);
    }
}

static void test_other_keys(void **state)
{
    static const char *const keys[] = {"0//cuda//0/0", "0//cpu//", "//cpu//0/0", "0//cpu//0", "0//cpu//0/", "0//cpu//a/0", "0//cpu//0/0x",
                                       "default_pg/0//rank0", ""};
    struct c10d_log *log = c10d_log_create();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (uint32_t rank = 0; rank < 4; rank++)
            set(log, rank, keys[i]);
    set(log, 0, "0//cpu//0/0"); /* a group of one */
    set(log, C10D_AUTHOR_NONE, "0//cpu//0/1");
    assert_int_equal(check(log, 0, 1, NULL), 0);
    c10d_log_destroy(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_absent_members),
        cmocka_unit_test(test_other_keys),
    };
    return cmocka_run_group_tests_name("prismd: gloo", tests, NULL, NULL);
}
