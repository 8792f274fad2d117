/* The codec: every operation of both dialects, every cut, random bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "c10d/mutation.h"
#include "c10d/wire.h"
#include "common/bytes.h"

static void put_string(struct bytes *b, const char *s)
{
    bytes_put_u64(b, strlen(s));
    bytes_put(b, s, strlen(s));
}

static int64_t decode(enum c10d_dialect dialect, const struct bytes *b, struct c10d_request *r)
{
    size_t need = 0;
    const char *why = NULL;
    int64_t n = c10d_wire_decode(dialect, b->data, b->len, r, &need, &why);
    if (n < 0)
        assert_non_null(why);
    if (n == 0)
        assert_true(need > b->len);
    return n;
}

static void detects_dialects(void **state)
{
    const uint8_t modern[] = {0, 0xCE, 0xF7, 0x85, 0x3C}, legacy_set[] = {0, 3, 0, 0, 0}, add = 3;
    assert_int_equal(c10d_wire_detect(modern, 0), C10D_DIALECT_UNKNOWN);
    assert_int_equal(c10d_wire_detect(modern, 4), C10D_DIALECT_UNKNOWN);
    assert_int_equal(c10d_wire_detect(modern, 5), C10D_DIALECT_MODERN);
    assert_int_equal(c10d_wire_detect(legacy_set, 5), C10D_DIALECT_LEGACY);
    assert_int_equal(c10d_wire_detect(&add, 1), C10D_DIALECT_LEGACY);
}

static void decodes_compare_set_at_every_cut(void **state)
{
    struct bytes b = {0};
    struct c10d_request r;
    bytes_put_u8(&b, 2);
    put_string(&b, "key");
    put_string(&b, "old");
    put_string(&b, "newer");
    size_t whole = b.len;
    for (b.len = 0; b.len < whole; b.len++)
        assert_int_equal(decode(C10D_DIALECT_MODERN, &b, &r), 0);
    bytes_put_u8(&b, 99); /* the next request's first byte */
    assert_int_equal(decode(C10D_DIALECT_MODERN, &b, &r), whole);
    assert_int_equal(r.op, C10D_OP_COMPARE_SET);
    assert_memory_equal(r.key.data, "key", 3);
    assert_memory_equal(r.value.data, "old", 3);
    assert_memory_equal(r.second.data, "newer", 5);
    bytes_free(&b);
}

static void decodes_strings(void **state)
{
    struct bytes b = {0};
    struct c10d_request r;
    bytes_put_u8(&b, 5);
    bytes_put_u64(&b, 2);
    put_string(&b, "one");
    put_string(&b, "");
    assert_int_equal(decode(C10D_DIALECT_LEGACY, &b, &r), b.len);
    assert_int_equal(r.op, C10D_OP_WAIT);
    assert_int_equal(r.count, 2);
    struct c10d_slice first = c10d_wire_next(&r.items), second = c10d_wire_next(&r.items);
    assert_int_equal(first.len, 3);
    assert_int_equal(second.len, 0);
    assert_int_equal(r.items.len, 0);
    bytes_free(&b);
}

static void refuses_what_is_over_the_bounds(void **state)
{
    struct {
        uint8_t op;
        uint64_t length;
    } bad[] = {{1, C10D_KEY_MAX + 1}, {1, UINT64_MAX}, {5, C10D_KEYS_MAX + 1ull},
               {11, UINT64_MAX},      {19, 0},         {255, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bytes b = {0};
        struct c10d_request r;
        bytes_put_u8(&b, bad[i].op);
        bytes_put_u64(&b, bad[i].length);
        assert_int_equal(decode(C10D_DIALECT_MODERN, &b, &r), -1);
        bytes_free(&b);
    }
}

static void legacy_numbers_differ(void **state)
{
    struct bytes b = {0};
    struct c10d_request r;
    bytes_put_u8(&b, 7);
    put_string(&b, "k");
    assert_int_equal(decode(C10D_DIALECT_LEGACY, &b, &r), b.len);
    assert_int_equal(r.op, C10D_OP_WATCH_KEY);
    assert_int_equal(decode(C10D_DIALECT_MODERN, &b, &r), 1);
    assert_int_equal(r.op, C10D_OP_GETNUMKEYS);
    bytes_free(&b);
}

static void survives_random_bytes(void **state)
{
    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t len = (size_t)(rand() % 64);
        uint8_t *data = malloc(len + 1); /* exact, so that a sanitizer sees a read past it */
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)(rand() % 3 ? rand() % 20 : rand());
        uint8_t *exact = realloc(data, len ? len : 1);
        struct bytes b = {exact, len, len};
        struct c10d_request r;
        int64_t n = decode(round & 1 ? C10D_DIALECT_MODERN : C10D_DIALECT_LEGACY, &b, &r);
        assert_true(n <= (int64_t)len);
        if (n > 0 && r.items.len)
            for (uint64_t i = 0; i < r.count && r.op != C10D_OP_MULTI_SET; i++)
                c10d_wire_next(&r.items);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detects_dialects),      cmocka_unit_test(decodes_compare_set_at_every_cut),
        cmocka_unit_test(decodes_strings),       cmocka_unit_test(refuses_what_is_over_the_bounds),
        cmocka_unit_test(legacy_numbers_differ), cmocka_unit_test(survives_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
