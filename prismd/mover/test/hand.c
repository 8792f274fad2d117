/* Memory between a rank that leaves and one that comes: never more is kept than ranks on their way in still lack, of each size, nothing
 * is given twice or lost, and nothing stays when nobody lacks it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prismd/mover/copy.h"
#include "prismd/mover/guest.h"

#define RANKS  3
#define RANGES 8
#define SIZES  3

struct guest *guests;

enum place { NOWHERE, KEPT, GIVEN, RELEASED };

static struct {
    struct guest ranks[RANKS];
    struct range ranges[RANKS][RANGES];
    enum place memories[4096];
    uint64_t made, kept[SIZES];
} sim;

static uint64_t seed = 11;
static uint64_t number(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static uint64_t size_of(uint64_t i)
{
    return (i + 1) << 21;
}

void copy_release(struct memory m)
{
    assert_int_equal(sim.memories[m.handle], KEPT);
    sim.memories[m.handle] = RELEASED;
    sim.kept[m.fd]--; /* the descriptor is the size's number here */
}

static uint64_t lacking(uint64_t bytes)
{
    uint64_t n = 0;
    for (int i = 0; i < RANKS; i++)
        for (int k = 0; sim.ranks[i].coming && k < RANGES; k++)
            n += sim.ranges[i][k].plain && !sim.ranges[i][k].leaving && sim.ranges[i][k].bytes == bytes;
    return n;
}

static void begin(void)
{
    memset(&sim, 0, sizeof sim);
    guests = NULL;
    for (uint32_t i = 0; i < RANKS; i++) {
        struct guest *g = &sim.ranks[i];
        g->rank = i;
        HASH_ADD(hh, guests, rank, sizeof g->rank, g);
        for (uint64_t k = 0; k < RANGES; k++) {
            struct range *r = &sim.ranges[i][k];
            *r = (struct range){.number = k, .bytes = size_of(number(SIZES)), .plain = number(5), .guest = g};
            HASH_ADD(hh, g->ranges, number, sizeof r->number, r);
        }
    }
}

static void end(void)
{
    for (int i = 0; i < RANKS; i++) {
        sim.ranks[i].coming = false;
        HASH_CLEAR(hh, sim.ranks[i].ranges);
    }
    hand_trim();
    HASH_CLEAR(hh, guests);
    for (uint64_t i = 0; i < sim.made; i++)
        assert_true(sim.memories[i] == GIVEN || sim.memories[i] == RELEASED);
}

/* Somebody's range was copied out. */
static void leave(void)
{
    uint64_t size = number(SIZES), handle = sim.made++;
    bool wanted = lacking(size_of(size)) > sim.kept[size];
    sim.memories[handle] = KEPT;
    assert_int_equal(hand_keep((struct memory){handle, (int)size}, size_of(size)), wanted);
    sim.kept[size] += wanted;
    if (!wanted)
        sim.memories[handle] = RELEASED;
}

static void take(struct range *r)
{
    struct memory m = {0, -1};
    uint64_t size = r->bytes / size_of(0) - 1;
    if (!r->plain || r->leaving || !r->guest->coming)
        return;
    bool got = hand_take(r->bytes, &m);
    assert_int_equal(got, sim.kept[size] > 0);
    r->leaving = true; /* it makes its memory itself if it got none */
    if (!got)
        return;
    assert_int_equal(m.fd, size);
    assert_int_equal(sim.memories[m.handle], KEPT);
    sim.memories[m.handle] = GIVEN;
    sim.kept[size]--;
}

static void come_or_arrive(struct guest *g)
{
    g->coming = !g->coming;
    for (struct range *r = g->ranges; r; r = r->hh.next)
        r->leaving = false;
    hand_trim();
}

static void kept_one_for_one(void **state)
{
    (void)state;
    uint64_t given = 0;
    for (int round = 0; round < 200; round++) {
        begin();
        for (int step = 0; step < 300; step++) {
            switch (number(5)) {
            case 0:
            case 1:
                leave();
                break;
            case 2:
            case 3:
                take(&sim.ranges[number(RANKS)][number(RANGES)]);
                break;
            default:
                if (number(8) == 0) {
                    come_or_arrive(&sim.ranks[number(RANKS)]);
                } else if (number(16) == 0) {
                    bool any = sim.kept[0] + sim.kept[1] + sim.kept[2];
                    assert_int_equal(hand_clear(), any);
                    assert_int_equal(sim.kept[0] + sim.kept[1] + sim.kept[2], 0);
                }
            }
            hand_trim(); /* a range that makes its memory itself lacks none */
            for (uint64_t i = 0; i < SIZES; i++)
                assert_true(sim.kept[i] <= lacking(size_of(i)));
        }
        for (uint64_t i = 0; i < sim.made; i++)
            given += sim.memories[i] == GIVEN;
        end();
    }
    assert_true(given > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_one_for_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
