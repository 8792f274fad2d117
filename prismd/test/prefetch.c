/* prefetch.c - a small trace on disk, asked for its payloads in all kinds of order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coll/types.h"
#include "common/clock.h"
#include "prismd/replay/prefetch.h"

#define GROUPS    60u
#define ITERATION 20u /* set-up 20, then two of these */
#define RANKS     3u

struct fixture {
    char folder[64];
    struct graph *graph;
    struct payload_reader *reader;
};

/* What the thread reads with is wrapped (module.mk): each reading from the second on waits to be let on, if that is asked for. */
static struct {
    bool on;
    uint32_t begun;
    sem_t second, let_on;
} slow;

int64_t __real_payload_reader_get(struct payload_reader *r, struct payload_key key, void *out, size_t cap, struct prism_error *err);
int64_t __wrap_payload_reader_get(struct payload_reader *r, struct payload_key key, void *out, size_t cap, struct prism_error *err);
int64_t __wrap_payload_reader_get(struct payload_reader *r, struct payload_key key, void *out, size_t cap, struct prism_error *err)
{
    if (slow.on && ++slow.begun > 1) {
        sem_post(&slow.second);
        sem_wait(&slow.let_on);
    }
    return __real_payload_reader_get(r, key, out, cap, err);
}

static size_t size_of(uint32_t group)
{
    return group % 10 == 9 ? 0 : 1000 + 37 * group; /* every tenth delivers nothing */
}

static uint8_t byte_of(uint32_t rank, uint32_t group, size_t i)
{
    return (uint8_t)(rank * 101 + group * 7 + i / 64);
}

/* COMM nodes have even numbers, records odd ones. */
static void add_rank(struct graph *g, uint32_t rank)
{
    struct graph_part part = {.op = PRISM_OP_ALLREDUCE, .datatype = 7, .peer = -1, .count = 1};
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct graph_node comm = {.kind = GRAPH_COMM, .ordinal = i}, record = {.kind = GRAPH_RECORD};
        assert_int_equal(graph_add_node(g, rank, &comm, &part, 1), 0);
        assert_int_equal(graph_add_node(g, rank, &record, NULL, 0), 0);
    }
    g->ranks[rank].niterations = 2;
    g->ranks[rank].iterations = malloc(3 * sizeof(uint32_t));
    for (uint32_t i = 0; i < 3; i++)
        g->ranks[rank].iterations[i] = 2 * ITERATION * (i + 1);
}

static int make(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    uint8_t data[8192];
    struct prism_error err = {0};
    strcpy(f->folder, "/tmp/prism-prefetch.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    f->graph = graph_create(RANKS, 8);
    struct payload_writer *w = payload_writer_create(f->folder, 0, &err);
    for (uint32_t r = 0; r < RANKS; r++) {
        add_rank(f->graph, r);
        for (uint32_t g = 0; g < GROUPS && r < 2; g++) { /* rank 2 has none at all */
            for (size_t i = 0; i < size_of(g); i++)
                data[i] = byte_of(r, g, i);
            if (size_of(g))
                assert_int_equal(payload_writer_put(w, (struct payload_key){r, 0, g, PAYLOAD_OUTPUT}, data, size_of(g), &err), 0);
        }
    }
    assert_int_equal(payload_writer_finish(w, &err), 0);
    f->reader = payload_reader_open(f->folder, 1, &err);
    *state = f;
    return f->reader ? 0 : -1;
}

static int unmake(void **state)
{
    struct fixture *f = *state;
    char path[128];
    payload_reader_close(f->reader);
    graph_destroy(f->graph);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/payload-0.%s", f->folder, i ? "idx" : "dat");
        unlink(path);
    }
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

static bool wants_all(void *ctx, uint32_t rank, const struct graph_node *node)
{
    (void)ctx;
    (void)rank;
    (void)node;
    return true;
}

static struct prefetch *start(struct fixture *f, size_t budget)
{
    const uint32_t ranks[RANKS] = {0, 1, 2};
    struct prefetch *p = prefetch_create(f->graph, f->reader, ranks, RANKS, budget, wants_all, NULL);
    assert_non_null(p);
    return p;
}

/* As a rank would: what is not there it reads itself. Whatever comes is right. */
static bool ask(struct prefetch *p, uint32_t rank, uint32_t group)
{
    size_t len = 0;
    uint8_t *data = prefetch_take(p, rank, 2 * group, &len);
    if (!data)
        return false;
    assert_int_equal(len, size_of(group));
    for (size_t i = 0; i < len; i++)
        assert_int_equal(data[i], byte_of(rank, group, i));
    prefetch_give(p, data);
    return true;
}

static void pause_ms(int ms)
{
    clock_sleep_until_ns(clock_now_ns() + ms * 1000000LL);
}

/* From that group on until one was ready, with time for the thread to get ahead; on a machine that is never so slow. */
static uint32_t catch_up(struct prefetch *p, uint32_t rank, uint32_t group)
{
    for (int i = 0; i < 1000; i++, group = group + 1 < GROUPS ? group + 1 : 2 * ITERATION) {
        if (ask(p, rank, group))
            return group;
        pause_ms(10);
    }
    fail_msg("nothing is ever ready");
    return 0;
}

static void in_order_all_is_ready(void **state)
{
    struct prefetch *p = start(*state, 1 << 20);
    uint64_t ready = 0, asked = 0;
    for (uint32_t round = 0; round < 4; round++)
        for (uint32_t g = round ? 2 * ITERATION : 0; g < GROUPS; g++) /* the last iteration goes round */
            for (uint32_t r = 0; r < 2; r++) {
                bool there = ask(p, r, g);
                ready += there;
                asked += size_of(g) > 0;
                pause_ms(there || !size_of(g) ? 0 : 10);
            }
    struct prefetch_counts c = prefetch_counts(p);
    assert_int_equal(c.hits, ready);
    assert_int_equal(c.hits + c.misses, asked);
    assert_true(c.hits > 0);
    prefetch_destroy(p);
}

static void nothing_to_deliver_is_no_miss(void **state)
{
    struct prefetch *p = start(*state, 1 << 20);
    assert_false(ask(p, 0, 9));
    assert_false(ask(p, 2, 0));
    assert_false(ask(p, 7, 0)); /* not one of its ranks */
    size_t len;
    assert_null(prefetch_take(p, 0, 1, &len));     /* a record */
    assert_null(prefetch_take(p, 0, 99999, &len)); /* not recorded */
    struct prefetch_counts c = prefetch_counts(p);
    assert_int_equal(c.hits + c.misses, 0);
    prefetch_destroy(p);
}

/* Streams of a rank overtake each other. */
static void neighbours_may_change_places(void **state)
{
    struct prefetch *p = start(*state, 1 << 20);
    uint32_t misses = UINT32_MAX;
    for (int i = 0; i < 100 && misses; i++) { /* until the thread was ahead by enough all the time */
        catch_up(p, 0, 0);
        pause_ms(10 * i);
        misses = 0;
        for (uint32_t g = 10; g < 18; g += 2)
            misses += !ask(p, 0, g + 1) + !ask(p, 0, g);
    }
    assert_int_equal(misses, 0);
    prefetch_destroy(p);
}

/* One that is asked for too early is read by the caller, and what the thread has read stays. */
static void a_miss_nearby_loses_nothing(void **state)
{
    struct prefetch *p = start(*state, 8000); /* a few */
    bool kept = false;
    for (int i = 1; i < 100 && !kept; i++) {
        uint32_t at = catch_up(p, 0, 0);
        pause_ms(10 * i);
        uint32_t first = at + 1 < GROUPS ? at + 1 : 2 * ITERATION, early = at + 16 < GROUPS ? at + 16 : at - 4;
        if (!size_of(first) || !size_of(early) || ask(p, 0, early))
            continue;
        kept = ask(p, 0, first);
    }
    assert_true(kept);
    prefetch_destroy(p);
}

/* A small budget holds a few; the thread goes on as they are taken, and again behind a jump. */
static void little_memory_is_enough(void **state)
{
    struct prefetch *p = start(*state, 8000);
    for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t r = 0; r < 2 && size_of(g); r++)
            if (!ask(p, r, g))
                pause_ms(10);
    ask(p, 0, 3); /* far back */
    catch_up(p, 0, 4);
    struct prefetch_counts c = prefetch_counts(p);
    assert_true(c.hits > 0 && c.misses > 0);
    prefetch_destroy(p);
}

static void a_payload_larger_than_the_budget_is_left_out(void **state)
{
    struct prefetch *p = start(*state, 1100); /* groups 0 to 2 */
    assert_false(ask(p, 0, 40));
    bool there = false;
    for (int i = 0; i < 100 && !there; i++) {
        ask(p, 0, 0);
        pause_ms(i);
        there = ask(p, 0, 1);
    }
    assert_true(there);
    prefetch_destroy(p);
    assert_null(prefetch_create(((struct fixture *)*state)->graph, ((struct fixture *)*state)->reader, NULL, 0, 1000, wants_all, NULL));
    const uint32_t rank = 0;
    assert_null(prefetch_create(((struct fixture *)*state)->graph, ((struct fixture *)*state)->reader, &rank, 1, 0, wants_all, NULL));
    size_t len;
    assert_null(prefetch_take(NULL, 0, 0, &len));
    assert_int_equal(prefetch_counts(NULL).misses, 0);
    prefetch_destroy(NULL);
}

static bool wants_the_last(void *ctx, uint32_t rank, const struct graph_node *node)
{
    (void)ctx;
    (void)rank;
    return node->ordinal == GROUPS - 2; /* the last delivers nothing */
}

/* An iteration with one payload: it is there, and being read again for the next. */
static void what_is_there_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    const uint32_t rank = 0;
    slow.begun = 0;
    sem_init(&slow.second, 0, 0);
    sem_init(&slow.let_on, 0, 0);
    slow.on = true;
    struct prefetch *p = prefetch_create(f->graph, f->reader, &rank, 1, 1 << 20, wants_the_last, NULL);
    assert_non_null(p);
    sem_wait(&slow.second);
    alarm(30); /* of waiting for ever */
    assert_true(ask(p, 0, GROUPS - 2));
    alarm(0);
    slow.on = false;
    sem_post(&slow.let_on);
    prefetch_destroy(p);
    sem_destroy(&slow.second);
    sem_destroy(&slow.let_on);
}

static void damaged_data_is_never_handed_out(void **state)
{
    struct fixture *f = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/payload-0.dat", f->folder);
    FILE *file = fopen(path, "r+");
    for (int i = 0; i < 4000; i++) {
        fseek(file, 24 + i, SEEK_SET);
        fputc(0x55, file);
    }
    fclose(file);
    struct prefetch *p = start(f, 1 << 20);
    for (uint32_t g = 0; g < GROUPS; g++)
        ask(p, 0, g);
    prefetch_destroy(p);
}

struct asker {
    struct prefetch *prefetch;
    uint32_t rank;
    pthread_t thread;
};

static void *ask_all(void *arg)
{
    struct asker *a = arg;
    uint32_t g = 0;
    for (int i = 0; i < 2000; i++) {
        size_t len;
        free(prefetch_take(a->prefetch, a->rank, 2 * g, &len));
        g = i % 97 == 96 ? (uint32_t)i % GROUPS : (g + 1) % GROUPS;
    }
    return NULL;
}

static void ranks_ask_at_once(void **state)
{
    struct prefetch *p = start(*state, 20000);
    struct asker a[4];
    for (uint32_t i = 0; i < 4; i++) {
        a[i] = (struct asker){.prefetch = p, .rank = i % 2};
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask_all, &a[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(a[i].thread, NULL);
    prefetch_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order_all_is_ready, make, unmake),
        cmocka_unit_test_setup_teardown(nothing_to_deliver_is_no_miss, make, unmake),
        cmocka_unit_test_setup_teardown(neighbours_may_change_places, make, unmake),
        cmocka_unit_test_setup_teardown(a_miss_nearby_loses_nothing, make, unmake),
        cmocka_unit_test_setup_teardown(little_memory_is_enough, make, unmake),
        cmocka_unit_test_setup_teardown(a_payload_larger_than_the_budget_is_left_out, make, unmake),
        cmocka_unit_test_setup_teardown(what_is_there_is_not_waited_for, make, unmake),
        cmocka_unit_test_setup_teardown(damaged_data_is_never_handed_out, make, unmake),
        cmocka_unit_test_setup_teardown(ranks_ask_at_once, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
