/* How many steps and buffers a reduction takes. That the steps give the right bits is in reduce.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/pairs.h"

enum { MOST = 4096 };

static struct pairs_key keys[MOST];

static void build(struct pairs *p, uint32_t n, uint32_t ndistinct, uint32_t skip, bool scaled)
{
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (struct pairs_key){.input = 0x7f0000000000u + (i + skip) % ndistinct * 4096u};
    pairs_build(p, keys, n, scaled);
}

static void expect(uint32_t n, uint32_t ndistinct, uint32_t most_steps, uint32_t most_buffers)
{
    struct pairs p;
    build(&p, n, ndistinct, 0, false);
    assert_int_equal(p.nleaves, ndistinct);
    assert_in_range(p.nsteps, 0, most_steps);
    assert_in_range(p.nbuffers, 0, most_buffers);
    pairs_free(&p);
}

static void costs_what_differs(void **state)
{
    (void)state;
    expect(1, 1, 0, 0);
    expect(2, 2, 1, 1);
    expect(64, 64, 63, 6);
    expect(4095, 4095, 4094, 12);
    expect(2048, 1, 11, 1);
    expect(2048, 8, 7 + 8, 3);
    expect(2047, 1, 10 + 10, 11); /* every level has an odd last one */
    expect(2040, 8, 7 + 8 + 7, 11);
}

/* What keeps the sum without sandbox members sees: a pattern that begins elsewhere. */
static void a_shifted_pattern_costs_the_same(void **state)
{
    struct pairs p;
    (void)state;
    for (uint32_t skip = 0; skip < 8; skip++) {
        build(&p, 2048, 8, skip, false);
        assert_int_equal(p.nsteps, 15);
        pairs_free(&p);
    }
}

static void factors_tell_members_apart(void **state)
{
    const struct pairs_key members[] = {{1, 2}, {1, 3}, {1, 2}, {1, 3}};
    struct pairs p;
    (void)state;
    pairs_build(&p, members, 4, true);
    assert_int_equal(p.nleaves, 2);
    assert_int_equal(p.leaves[0], 0);
    assert_int_equal(p.leaves[1], 1);
    assert_int_equal(p.nsteps, 3); /* the first scaled, the second scaled and added, doubled */
    assert_int_equal(p.steps[0].b, PAIRS_NONE);
    assert_int_equal(p.steps[1].b, 1);
    assert_int_equal(p.steps[2].a, p.steps[2].b);
    pairs_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(costs_what_differs), cmocka_unit_test(a_shifted_pattern_costs_the_same),
                                       cmocka_unit_test(factors_tell_members_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
