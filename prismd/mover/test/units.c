/* Space in units: nothing is handed out twice, nothing is lost, no run crosses a slab, and what is retired is not handed out. */
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

enum { COUNT = 256, SLAB = 64 };
enum state { FREE, TAKEN, RETIRED };

static void set(enum state *states, const struct extents *e, enum state from, enum state to)
{
    for (uint32_t i = 0; i < e->n; i++)
        for (uint64_t at = e->list[i].first; at < e->list[i].first + e->list[i].count; at++) {
            assert_int_equal(states[at], from);
            states[at] = to;
        }
}

static uint64_t count(const enum state *states, struct extent run, enum state state)
{
    uint64_t n = 0;
    for (uint64_t at = run.first; at < run.first + run.count; at++)
        n += states[at] == state;
    return n;
}

static void change(struct units *u, enum state *states, struct extent run)
{
    bool retire = number(2);
    if (retire)
        units_retire(u, run);
    else
        units_restore(u, run);
    for (uint64_t at = run.first; at < run.first + run.count; at++)
        if (states[at] == (retire ? FREE : RETIRED))
            states[at] = retire ? RETIRED : FREE;
}

static void retires(void **state)
{
    (void)state;
    enum { PIECES = 30, STEPS = 5000 };
    struct units u = {.slab = SLAB};
    struct extents held[PIECES] = {{0}};
    enum state states[COUNT] = {0};
    const struct extent all = {0, COUNT};
    units_grow(&u, COUNT);
    for (int step = 0; step < STEPS; step++) {
        struct extent slab = {number(COUNT / SLAB) * SLAB, SLAB};
        uint64_t i = number(PIECES), want = 1 + number(40);
        if (!number(4)) {
            change(&u, states, slab);
        } else if (held[i].n) {
            set(states, &held[i], TAKEN, FREE);
            units_give(&u, &held[i]);
        } else {
            assert_int_equal(units_take(&u, want, &held[i]), want <= count(states, all, FREE));
            set(states, &held[i], FREE, TAKEN);
        }
        assert_int_equal(u.free, count(states, all, FREE));
        assert_int_equal(u.retired, count(states, all, RETIRED));
        assert_int_equal(units_taken(&u, slab), count(states, slab, TAKEN));
    }
    for (int k = 0; k < PIECES; k++)
        free(held[k].list);
    units_free(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_and_gives), cmocka_unit_test(retires)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
