/* synthetic.c - what control mode keeps, and the pattern that stands for the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/synthetic.h"
#include "coll/types.h"

static void small_parts_and_integers_are_kept(void **state)
{
    static const int floats[] = {COLL_FLOAT16, COLL_FLOAT32, COLL_FLOAT64, COLL_BFLOAT16, COLL_FLOAT8E4M3, COLL_FLOAT8E5M2},
                     integers[] = {COLL_INT8, COLL_UINT8, COLL_INT32, COLL_UINT32, COLL_INT64, COLL_UINT64};
    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_true(coll_synthetic_keeps(floats[i], 0));
        assert_int_equal(coll_synthetic_kept(floats[i], 4096), 4096);
        assert_int_equal(coll_synthetic_kept(floats[i], 4097), 0);
        assert_int_equal(coll_synthetic_kept(integers[i], 1ull << 40), 1ull << 40);
    }
}

static void the_pattern_is_finite_and_not_all_equal(void **state)
{
    float values[1000];
    (void)state;
    coll_synthetic_fill(values, sizeof values, COLL_FLOAT32);
    for (int i = 0; i < 1000; i++) {
        assert_true(values[i] >= -1.0f / 32 && values[i] <= 1.0f / 32);
        assert_true(i < 256 || values[i] == values[i - 256]);
        assert_true(!i || values[i] != values[i - 1]);
    }
    assert_true(values[0] == -1.0f / 32);
}

/* The device doubles a block that the host made: the same as filling it all. Sizes need not be whole elements. */
static void doubling_a_block_goes_on_with_it(void **state)
{
    enum { BYTES = 5 * COLL_SYNTHETIC_BLOCK + 999 };
    static uint8_t whole[BYTES], doubled[BYTES];
    (void)state;
    for (int datatype = 0; datatype < COLL_DATATYPES; datatype++) {
        memset(doubled, 0xee, BYTES);
        coll_synthetic_fill(whole, BYTES, datatype);
        coll_synthetic_fill(doubled, COLL_SYNTHETIC_BLOCK, datatype);
        for (size_t done = COLL_SYNTHETIC_BLOCK; done < BYTES; done *= 2)
            memcpy(doubled + done, doubled, done < BYTES - done ? done : BYTES - done);
        assert_memory_equal(whole, doubled, BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_parts_and_integers_are_kept),
        cmocka_unit_test(the_pattern_is_finite_and_not_all_equal),
        cmocka_unit_test(doubling_a_block_goes_on_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
