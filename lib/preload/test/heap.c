/* heap.c - the staging heap and the slots of gates, without any device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "preload/gate/heap.h"
#include "preload/gate/slots.h"

static void low_offsets_first(void **state)
{
    struct heap h;
    heap_init(&h, 1 << 20);
    assert_int_equal(heap_take(&h, 1), 0);
    assert_int_equal(heap_take(&h, 257), HEAP_ALIGN);
    assert_int_equal(heap_take(&h, 10), 3 * HEAP_ALIGN);
    heap_give(&h, 0, 1);
    assert_int_equal(heap_take(&h, 300), 4 * HEAP_ALIGN);
    assert_int_equal(heap_take(&h, 256), 0);
    heap_clear(&h);
}

static void full_and_coalesced(void **state)
{
    struct heap h;
    heap_init(&h, 4 * HEAP_ALIGN);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(heap_take(&h, HEAP_ALIGN), i * HEAP_ALIGN);
    assert_true(heap_take(&h, 1) == HEAP_NONE);
    heap_give(&h, 0, HEAP_ALIGN);
    heap_give(&h, 2 * HEAP_ALIGN, HEAP_ALIGN);
    assert_true(heap_take(&h, 2 * HEAP_ALIGN) == HEAP_NONE);
    heap_give(&h, HEAP_ALIGN, HEAP_ALIGN);
    assert_int_equal(h.nfree, 1);
    assert_int_equal(heap_take(&h, 3 * HEAP_ALIGN), 0);
    heap_clear(&h);
}

/* Random takes and gives against a map of the bytes. */
static void never_twice(void **state)
{
    enum { UNITS = 512, LIVE = 64 };
    static unsigned char used[UNITS];
    struct heap_range live[LIVE] = {{0}};
    struct heap h;
    heap_init(&h, UNITS * HEAP_ALIGN);
    srand(1);
    for (int round = 0; round < 20000; round++) {
        struct heap_range *r = &live[rand() % LIVE];
        if (r->size) {
            heap_give(&h, r->offset, r->size);
            memset(used + r->offset / HEAP_ALIGN, 0, r->size / HEAP_ALIGN);
            r->size = 0;
            continue;
        }
        uint64_t units = 1 + (uint64_t)rand() % 20;
        uint64_t at = heap_take(&h, units * HEAP_ALIGN);
        if (at == HEAP_NONE)
            continue;
        for (uint64_t i = 0; i < units; i++) {
            assert_int_equal(used[at / HEAP_ALIGN + i], 0);
            used[at / HEAP_ALIGN + i] = 1;
        }
        *r = (struct heap_range){at, units * HEAP_ALIGN};
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].size)
            heap_give(&h, live[i].offset, live[i].size);
    assert_int_equal(h.nfree, 1);
    assert_int_equal(heap_free_bytes(&h), UNITS * HEAP_ALIGN);
    heap_clear(&h);
}

static void slots_come_back_when_done(void **state)
{
    size_t size = REGION_HEAP_OFFSET + 1024;
    struct region_slot *words = aligned_alloc(64, size);
    struct slot_use a, b, c;
    memset(words, 0, size);
    slots_init(words, size, size);
    assert_int_equal(slots_heap_size(), 1024);
    assert_true(slots_try(512, false, &a) && slots_try(512, false, &b));
    assert_true(a.slot != b.slot && a.offset != b.offset && a.offset >= REGION_HEAP_OFFSET);
    assert_false(slots_try(256, false, &c) || slots_try(256, true, &c));
    assert_true(slots_try(0, false, &c));
    assert_true(slots_any_closed());
    region_word_set(&words[a.slot].go, a.generation);
    assert_true(slots_opened(a.slot, a.generation) && !slots_opened(b.slot, b.generation));
    assert_false(slots_try(256, false, &c)); /* open, but the copies from the heap have not ended */
    region_word_set(&words[a.slot].done, a.generation);
    assert_true(slots_try(256, false, &c));
    assert_int_equal(c.offset, a.offset);
    free(words);
}

static struct region_slot *limited(uint64_t heap, uint64_t limit)
{
    size_t size = REGION_HEAP_OFFSET + heap;
    struct region_slot *words = aligned_alloc(64, size);
    memset(words, 0, size);
    slots_init(words, size, limit);
    return words;
}

static void end(struct region_slot *words, const struct slot_use *u)
{
    region_word_set(&words[u->slot].done, u->generation);
}

static void what_is_larger_than_the_limit_is_had_alone(void **state)
{
    struct region_slot *words = limited(16384, 1024);
    struct slot_use large, small, more;
    assert_true(slots_try(8192, false, &large));
    assert_false(slots_try(256, false, &small));
    assert_true(slots_try(0, false, &more)); /* takes nothing of the heap */
    end(words, &large);
    assert_true(slots_try(768, false, &small));
    assert_false(slots_try(8192, false, &large) || slots_try(512, false, &more));
    assert_true(slots_try(256, false, &more));
    assert_int_equal(slots_in_use(), 1024);
    end(words, &small);
    assert_false(slots_try(8192, false, &large)); /* not alone yet */
    end(words, &more);
    assert_true(slots_try(8192, false, &large));
    assert_int_equal(large.offset, REGION_HEAP_OFFSET); /* low ranges again */
    assert_int_equal(slots_in_use(), 8192);
    assert_true(slots_try(8192, true, &more)); /* the limit is no limit to who goes beyond it … */
    assert_false(slots_try(256, true, &small)); /* … the heap's end is */
    free(words);
}

/* A second without an end, more where more than the limit is in use. */
static void who_waits_for_long_goes_beyond_the_limit(void **state)
{
    struct region_slot *words = limited(65536, 1024);
    struct slot_use a, b, c;
    struct slots_wait wait = {0};
    int64_t now = 12345;
    assert_true(slots_try(512, false, &a) && slots_try(512, false, &b));
    assert_false(slots_waited(&wait, now) || slots_waited(&wait, now + 999999999));
    assert_true(slots_waited(&wait, now + 1000000000));
    end(words, &a);
    assert_false(slots_try(1024, false, &c)); /* looks, and finds that one has ended */
    assert_false(slots_waited(&wait, now += 1000000000));
    assert_true(slots_waited(&wait, now + 1000000000));
    assert_true(slots_try(3072, true, &c));
    assert_int_equal(slots_in_use(), 3584);
    wait = (struct slots_wait){0};
    assert_false(slots_waited(&wait, now) || slots_waited(&wait, now + 2999999999));
    assert_true(slots_waited(&wait, now + 3000000000));
    assert_true(slots_try(32768, true, &a));
    assert_false(slots_waited(&wait, now + 7999999999));
    assert_true(slots_waited(&wait, now + 8000000000));
    free(words);
}

/* More uses than slots: generations go on counting and wrap without harm. */
static void generations_count_on(void **state)
{
    size_t size = REGION_HEAP_OFFSET + 256;
    struct region_slot *words = aligned_alloc(64, size);
    struct slot_use u;
    memset(words, 0, size);
    words[0].arrive = words[0].go = words[0].done = UINT32_MAX - 1;
    slots_init(words, size, size);
    for (int i = 0; i < 5; i++) {
        assert_true(slots_try(0, false, &u));
        assert_int_equal(u.slot, 0);
        assert_false(slots_opened(u.slot, u.generation));
        region_word_set(&words[0].go, u.generation);
        region_word_set(&words[0].done, u.generation);
    }
    assert_int_equal(u.generation, 3);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_offsets_first),         cmocka_unit_test(full_and_coalesced),
        cmocka_unit_test(never_twice),               cmocka_unit_test(slots_come_back_when_done),
        cmocka_unit_test(generations_count_on),      cmocka_unit_test(what_is_larger_than_the_limit_is_had_alone),
        cmocka_unit_test(who_waits_for_long_goes_beyond_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
