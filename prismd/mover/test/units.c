/* Space in units: nothing is handed out twice, nothing is lost, no run crosses a slab. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/mover/units.h"

static uint64_t seed = 7;
static uint64_t number(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void takes_and_gives(void **state)
{
    (void)state;
    enum { PIECES = 40, STEPS = 5000 };
    struct units u = {.slab = 64};
    struct extents held[PIECES] = {{0}};
    uint64_t sizes[PIECES] = {0}, used = 0;
    units_grow(&u, 200);
    for (int step = 0; step < STEPS; step++) {
        uint64_t i = number(PIECES), want = 1 + number(90);
        if (held[i].n) {
            units_give(&u, &held[i]);
            used -= sizes[i];
        } else {
            bool taken = units_take(&u, want, &held[i]);
            assert_int_equal(taken, want <= u.count - used);
            sizes[i] = taken ? want : 0;
            used += sizes[i];
        }
        if (step == STEPS / 2)
            units_grow(&u, 150);
        assert_int_equal(u.free, u.count - used);
        uint8_t seen[350] = {0};
        for (int k = 0; k < PIECES; k++) {
            uint64_t sum = 0;
            for (uint32_t e = 0; e < held[k].n; e++) {
                struct extent x = held[k].list[e];
                assert_int_equal(x.first / 64, (x.first + x.count - 1) / 64);
                for (uint64_t at = x.first; at < x.first + x.count; at++)
                    assert_int_equal(seen[at]++, 0);
                sum += x.count;
            }
            assert_int_equal(sum, held[k].n ? sizes[k] : 0);
        }
    }
    for (int k = 0; k < PIECES; k++)
        free(held[k].list);
    units_free(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_and_gives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
