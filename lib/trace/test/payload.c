#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "scratch.h"
#include "trace/payload.h"
#include "trace/payload_format.h"

#define DATA  "payload-0.dat"
#define INDEX "payload-0.idx"

static struct payload_key key(uint32_t rank, uint32_t ordinal)
{
    return (struct payload_key){rank, 3, ordinal, PAYLOAD_OUTPUT};
}

static struct payload_writer *writer(const char *dir, uint32_t node)
{
    struct prism_error err = {0};
    struct payload_writer *w = payload_writer_create(dir, node, &err);
    if (!w)
        fail_msg("%s", err.text);
    return w;
}

static struct payload_reader *reader(const char *dir, uint32_t nodes)
{
    struct prism_error err = {0};
    struct payload_reader *r = payload_reader_open(dir, nodes, &err);
    if (!r)
        fail_msg("%s", err.text);
    return r;
}

/* Half of them compress, half do not. */
static void fill(uint8_t *data, size_t len, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)(seed % 2 ? scratch_random(&state) : seed + i / 64);
}

static void expect_open(const char *dir, uint32_t nodes, const char *text)
{
    struct prism_error err = {0};
    assert_null(payload_reader_open(dir, nodes, &err));
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static void expect_get(struct payload_reader *r, struct payload_key k, size_t cap, const char *text)
{
    struct prism_error err = {0};
    uint8_t *out = test_malloc(cap + 1);
    assert_int_equal(payload_reader_get(r, k, out, cap, &err), -1);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
    test_free(out);
}

static void put_some(const char *dir, uint32_t node, int n)
{
    struct payload_writer *w = writer(dir, node);
    uint8_t data[5000];
    for (int i = 0; i < n; i++) {
        fill(data, sizeof data, (uint64_t)i);
        assert_int_equal(payload_writer_put(w, key(node, (uint32_t)i), data, sizeof data, NULL), 0);
    }
    assert_int_equal(payload_writer_finish(w, NULL), 0);
}

static void test_round_trip(void **state)
{
    uint8_t data[5000], out[5000];
    put_some(*state, 0, 10);
    put_some(*state, 1, 4);
    struct payload_reader *r = reader(*state, 2);
    for (uint32_t node = 0; node < 2; node++)
        for (uint32_t i = 0; i < (node ? 4 : 10); i++) {
            fill(data, sizeof data, i);
            assert_int_equal(payload_reader_size(r, key(node, i)), sizeof data);
            assert_int_equal(payload_reader_get(r, key(node, i), out, sizeof out, NULL), sizeof data);
            assert_memory_equal(out, data, sizeof data);
        }
    assert_int_equal(payload_reader_size(r, key(2, 0)), -1);
    struct payload_key contribution = key(0, 0);
    contribution.role = PAYLOAD_CONTRIBUTION;
    assert_int_equal(payload_reader_size(r, contribution), -1);
    expect_get(r, key(0, 10), 5000, "no payload (output) of rank 0, communicator 3, group 10");
    expect_get(r, key(0, 9), 4999, "has 5000 bytes, the program asks for 4999");
    uint64_t payloads, raw, disk;
    payload_reader_totals(r, &payloads, &raw, &disk);
    assert_int_equal(payloads, 14);
    assert_int_equal(raw, 14 * 5000);
    assert_int_equal(disk, scratch_size(*state, DATA) + scratch_size(*state, "payload-1.dat"));
    assert_true(disk < 9 * 5000);
    payload_reader_close(r);
    payload_reader_close(NULL);
}

static void test_same_content_once(void **state)
{
    struct payload_writer *w = writer(*state, 0);
    uint8_t data[4096], out[4096];
    fill(data, sizeof data, 1);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(payload_writer_put(w, key(i, 0), data, sizeof data, NULL), 0);
    assert_int_equal(payload_writer_put(w, key(0, 1), data, 100, NULL), 0);
    assert_int_equal(payload_writer_put(w, key(0, 2), NULL, 0, NULL), 0);
    assert_int_equal(payload_writer_put(w, key(5, 0), data, 10, NULL), 0); /* replaces */
    assert_int_equal(payload_writer_finish(w, NULL), 0);
    assert_true(scratch_size(*state, DATA) < 2 * 4096);
    struct payload_reader *r = reader(*state, 1);
    assert_int_equal(payload_reader_get(r, key(99, 0), out, sizeof out, NULL), 4096);
    assert_memory_equal(out, data, sizeof data);
    assert_int_equal(payload_reader_size(r, key(0, 1)), 100);
    assert_int_equal(payload_reader_get(r, key(0, 2), NULL, 0, NULL), 0);
    assert_int_equal(payload_reader_size(r, key(5, 0)), 10);
    payload_reader_close(r);
}

static void test_nothing_at_all(void **state)
{
    assert_int_equal(payload_writer_finish(writer(*state, 0), NULL), 0);
    struct payload_reader *r = reader(*state, 1);
    assert_int_equal(payload_reader_size(r, key(0, 0)), -1);
    payload_reader_close(r);
    r = reader(*state, 0);
    assert_int_equal(payload_reader_size(r, key(0, 0)), -1);
    payload_reader_close(r);
}

/* ---- Several threads ---- */

#define THREADS 4
#define EACH    200

struct worker {
    struct payload_writer *w;
    struct payload_reader *r;
    uint32_t number;
    int bad;
};

static size_t length_of(uint32_t i)
{
    return i * 97 % 9000;
}

static void *put_worker(void *arg)
{
    struct worker *me = arg;
    uint8_t data[9000];
    for (uint32_t i = 0; i < EACH; i++) { /* odd ones are the same in every thread */
        fill(data, length_of(i), i % 2 ? i : i * 1000 + me->number);
        me->bad |= payload_writer_put(me->w, key(me->number, i), data, length_of(i), NULL);
    }
    return NULL;
}

static void *get_worker(void *arg)
{
    struct worker *me = arg;
    uint8_t data[9000], out[9000];
    for (uint32_t i = 0; i < EACH; i++) {
        fill(data, length_of(i), i % 2 ? i : i * 1000 + me->number);
        me->bad |=
            payload_reader_get(me->r, key(me->number, i), out, sizeof out, NULL) != (int64_t)length_of(i) ||
            memcmp(out, data, length_of(i)) != 0;
    }
    return NULL;
}

static void run_workers(void *(*function)(void *), struct payload_writer *w, struct payload_reader *r)
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){w, r, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, function, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].bad, 0);
    }
}

static void test_threads(void **state)
{
    struct payload_writer *w = writer(*state, 0);
    run_workers(put_worker, w, NULL);
    assert_int_equal(payload_writer_finish(w, NULL), 0);
    struct payload_reader *r = reader(*state, 1);
    run_workers(get_worker, NULL, r);
    payload_reader_close(r);
}

/* ---- Large contents, which threads work on ---- */

#define BIG    200000u /* bytes; none of a power of two */
#define ROUNDS 12u

static struct payload_writer *crowded_writer(const char *dir)
{
    struct payload_writer *w = writer(dir, 0);
    payload_writer_set_threads(w, 5);
    return w;
}

/* Whatever threads finish first, what was put last counts: sizes change, so that early ones take longer. */
static void *replace_worker(void *arg)
{
    struct worker *me = arg;
    uint8_t *data = malloc(ROUNDS * BIG);
    for (uint32_t i = 0; i < ROUNDS; i++)
        for (uint32_t k = 0; k < 3; k++) {
            size_t len = k == 2 && i == ROUNDS - 1 ? 1000 : (ROUNDS - i) * BIG;
            memset(data, (int)(i * 16 + k + me->number), len);
            me->bad |= payload_writer_put(me->w, key(me->number, k), data, len, NULL);
        }
    free(data);
    return NULL;
}

static void test_last_put_counts(void **state)
{
    uint8_t out[BIG];
    struct payload_writer *w = crowded_writer(*state);
    run_workers(replace_worker, w, NULL);
    assert_int_equal(payload_writer_finish(w, NULL), 0);
    struct payload_reader *r = reader(*state, 1);
    for (uint32_t t = 0; t < THREADS; t++)
        for (uint32_t k = 0; k < 3; k++) {
            int64_t len = k == 2 ? 1000 : BIG;
            assert_int_equal(payload_reader_get(r, key(t, k), out, sizeof out, NULL), len);
            for (int64_t i = 0; i < len; i++)
                assert_int_equal(out[i], (uint8_t)((ROUNDS - 1) * 16 + k + t));
        }
    payload_reader_close(r);
}

/* The same contents from all, in another order each. */
static void *same_worker(void *arg)
{
    struct worker *me = arg;
    uint8_t *data = malloc(BIG);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t which = (i + me->number * 3) % ROUNDS;
        fill(data, BIG, which * 2 + 1);
        me->bad |= payload_writer_put(me->w, key(me->number, which), data, BIG, NULL);
    }
    free(data);
    return NULL;
}

static void test_same_large_content_once(void **state)
{
    uint8_t data[BIG], out[BIG];
    struct payload_writer *w = crowded_writer(*state);
    run_workers(same_worker, w, NULL);
    assert_int_equal(payload_writer_finish(w, NULL), 0);
    assert_int_equal(scratch_size(*state, DATA), PAYLOAD_DATA_HEADER + ROUNDS * BIG);
    struct payload_reader *r = reader(*state, 1);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fill(data, BIG, i * 2 + 1);
        for (uint32_t t = 0; t < THREADS; t++) {
            assert_int_equal(payload_reader_get(r, key(t, i), out, BIG, NULL), BIG);
            assert_memory_equal(out, data, BIG);
        }
    }
    payload_reader_close(r);
}

static void test_room(void **state)
{
    static const size_t lengths[] = {0, 100, BIG};
    uint8_t data[BIG], out[BIG];
    struct payload_writer *w = crowded_writer(*state);
    payload_writer_put_room(w, NULL, 0, payload_writer_room(w, BIG), BIG, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        struct payload_key keys[3] = {key(0, i), key(1, i), key(2, i)};
        void *room = payload_writer_room(w, lengths[i]);
        fill(room, lengths[i], 2 * i + 1);
        assert_int_equal(payload_writer_put_room(w, keys, 3, room, lengths[i], NULL), 0);
    }
    assert_int_equal(payload_writer_finish(w, NULL), 0);
    assert_true(scratch_size(*state, DATA) <= PAYLOAD_DATA_HEADER + 100 + BIG);
    struct payload_reader *r = reader(*state, 1);
    for (uint32_t i = 0; i < 9; i++) {
        size_t len = lengths[i % 3];
        fill(data, len, 2 * (i % 3) + 1);
        assert_int_equal(payload_reader_get(r, key(i / 3, i % 3), out, sizeof out, NULL), len);
        assert_memory_equal(out, data, len);
    }
    payload_reader_close(r);
}

/* Compressed in pieces, of which one is noise and the last is short: still one content of the same format. */
static void test_pieces(void **state)
{
    size_t len = (size_t)17 * 1000 * 1000, noise = (size_t)6 << 20;
    uint8_t *data = test_calloc(len, 1), *out = test_malloc(len);
    uint64_t seed = 1;
    for (size_t i = 0; i < len; i += sizeof seed)
        memcpy(data + i, i < noise ? &(uint64_t){scratch_random(&seed)} : &i, sizeof seed);
    struct payload_writer *w = crowded_writer(*state);
    assert_int_equal(payload_writer_put(w, key(0, 0), data, len, NULL), 0);
    assert_int_equal(payload_writer_finish(w, NULL), 0);
    assert_in_range(scratch_size(*state, DATA), noise, len - 2 * 1000 * 1000);
    struct payload_reader *r = reader(*state, 1);
    assert_int_equal(payload_reader_get(r, key(0, 0), out, len, NULL), len);
    assert_memory_equal(out, data, len);
    payload_reader_close(r);
    test_free(data);
    test_free(out);
}

/* A file system without room, as far as the writer can tell: files may not become larger. */
static void test_no_room_on_disk(void **state)
{
    struct rlimit before, limit;
    struct prism_error put = {0}, finish = {0};
    struct payload_writer *w = crowded_writer(*state);
    uint8_t data[BIG];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 2 * BIG;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    uint32_t puts = 0;
    for (; puts < 10000 && !put.code; puts++) {
        fill(data, BIG, 1);
        memcpy(data, &puts, sizeof puts);
        payload_writer_put(w, key(0, puts), data, BIG, &put);
    }
    int rc = payload_writer_finish(w, &finish);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_in_range(puts, 3, 9999);
    assert_int_equal(put.code, PRISM_EXIT_TRACE);
    assert_non_null(strstr(put.text, "cannot write"));
    assert_int_equal(rc, -1);
    assert_string_equal(finish.text, put.text);
    assert_int_equal(scratch_size(*state, DATA), -1);
    assert_int_equal(scratch_size(*state, INDEX), -1);
}

static void test_abort_large(void **state)
{
    struct payload_writer *w = crowded_writer(*state);
    uint8_t data[BIG];
    for (uint32_t i = 0; i < 50; i++) {
        fill(data, BIG, i);
        assert_int_equal(payload_writer_put(w, key(0, i), data, BIG, NULL), 0);
    }
    payload_writer_abort(w);
    assert_int_equal(scratch_size(*state, DATA), -1);
    assert_int_equal(scratch_size(*state, INDEX), -1);
}

/* ---- Keeping some ---- */

static int keep_below(void *ctx, struct payload_key k)
{
    return k.ordinal < *(uint32_t *)ctx;
}

static void test_keep(void **state)
{
    for (uint32_t limit = 0; limit <= 12; limit += 4) {
        struct payload_writer *w = writer(*state, 0);
        uint8_t data[2000], out[2000];
        for (uint32_t i = 0; i < 12; i++) {
            fill(data, sizeof data, 2 * i + 1); /* none compresses */
            assert_int_equal(payload_writer_put(w, key(0, 11 - i), data, sizeof data, NULL), 0);
        }
        assert_int_equal(payload_writer_finish_keep(w, keep_below, &limit, NULL), 0);
        long size = scratch_size(*state, DATA);
        assert_int_equal(size, PAYLOAD_DATA_HEADER + 2000 * (limit < 6 ? limit : 12));
        assert_int_equal(scratch_size(*state, DATA ".new"), -1);
        struct payload_reader *r = reader(*state, 1);
        for (uint32_t i = 0; i < 12; i++) {
            if (i >= limit) {
                assert_int_equal(payload_reader_size(r, key(0, i)), -1);
                continue;
            }
            fill(data, sizeof data, 2 * (11 - i) + 1);
            assert_int_equal(payload_reader_get(r, key(0, i), out, sizeof out, NULL), 2000);
            assert_memory_equal(out, data, sizeof data);
        }
        payload_reader_close(r);
    }
}

/* A reader of some keys knows no others. */
static void test_open_some(void **state)
{
    uint8_t data[5000], out[5000];
    uint32_t limit = 5;
    put_some(*state, 0, 12);
    struct payload_reader *r = payload_reader_open_some(*state, 1, keep_below, &limit, NULL);
    assert_non_null(r);
    for (uint32_t i = 0; i < 12; i++) {
        fill(data, sizeof data, i);
        assert_int_equal(payload_reader_size(r, key(0, i)), i < limit ? (int64_t)sizeof data : -1);
        if (i < limit) {
            assert_int_equal(payload_reader_get(r, key(0, i), out, sizeof out, NULL), sizeof data);
            assert_memory_equal(out, data, sizeof data);
        }
    }
    payload_reader_close(r);
    limit = 0;
    r = payload_reader_open_some(*state, 1, keep_below, &limit, NULL);
    assert_int_equal(payload_reader_size(r, key(0, 0)), -1);
    payload_reader_close(r);
}

/* ---- Incomplete and damaged ---- */

static void test_incomplete(void **state)
{
    expect_open(*state, 1, INDEX " is missing");
    put_some(*state, 0, 3);
    struct payload_writer *w = writer(*state, 0); /* a second capture begins: the first no longer counts */
    assert_int_equal(payload_writer_put(w, key(0, 0), "x", 1, NULL), 0);
    expect_open(*state, 1, INDEX " is missing");
    payload_writer_abort(w);
    payload_writer_abort(NULL);
    assert_int_equal(scratch_size(*state, DATA), -1);
    put_some(*state, 0, 3);
    expect_open(*state, 2, "payload-1.idx is missing");
    char from[1024], to[1024];
    scratch_path(from, sizeof from, *state, DATA);
    scratch_path(to, sizeof to, *state, "saved");
    assert_int_equal(rename(from, to), 0);
    expect_open(*state, 1, "cannot read");
    put_some(*state, 0, 3);
    assert_int_equal(rename(to, from), 0);
    expect_open(*state, 1, "not of the same capture");
}

static void test_unwritable(void **state)
{
    struct prism_error err = {0};
    char path[1024];
    scratch_path(path, sizeof path, *state, "nowhere");
    assert_null(payload_writer_create(path, 0, &err));
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
    assert_non_null(strstr(err.text, "nowhere/" DATA));
    assert_non_null(strstr(err.text, "--prism-trace"));
    if (geteuid() == 0)
        return; /* root writes everywhere */
    err.code = 0;
    assert_int_equal(chmod(*state, 0500), 0);
    assert_null(payload_writer_create(*state, 0, &err));
    assert_non_null(strstr(err.text, "Permission denied"));
    assert_int_equal(chmod(*state, 0700), 0);
}

static void test_damaged(void **state)
{
    put_some(*state, 0, 6);
    long size = scratch_size(*state, DATA);
    scratch_flip(*state, DATA, -100); /* the last one, which does not compress */
    struct payload_reader *r = reader(*state, 1);
    uint8_t out[5000];
    assert_int_equal(payload_reader_get(r, key(0, 0), out, sizeof out, NULL), 5000);
    expect_get(r, key(0, 5), 5000, "damaged (checksum): payload (output) of rank 0, communicator 3, group 5");
    scratch_flip(*state, DATA, PAYLOAD_DATA_HEADER + 8); /* the first, a zstd frame */
    expect_get(r, key(0, 0), 5000, "group 0");
    scratch_truncate(*state, DATA, size - 10); /* behind the reader's back */
    expect_get(r, key(0, 5), 5000, "damaged");
    payload_reader_close(r);
    expect_open(*state, 1, DATA " is cut short");

    put_some(*state, 0, 6);
    scratch_flip(*state, DATA, 17); /* store id */
    expect_open(*state, 1, "not of the same capture");
    put_some(*state, 0, 6);
    scratch_flip(*state, INDEX, 60);
    expect_open(*state, 1, INDEX " is damaged (checksum)");
    put_some(*state, 0, 6);
    scratch_truncate(*state, INDEX, -5);
    expect_open(*state, 1, INDEX " is damaged");
    scratch_truncate(*state, INDEX, 20);
    expect_open(*state, 1, "too short");
    put_some(*state, 0, 6);
    scratch_flip(*state, INDEX, 0);
    expect_open(*state, 1, "not an index of payloads");
    put_some(*state, 0, 6);
    scratch_flip(*state, INDEX, 8);
    expect_open(*state, 1, "payload version 33");
}

/* Any single damage to an index is found; damage with a right checksum never crashes. */
static void test_fuzz(void **state)
{
    struct payload_blob blobs[3] = {{1, 2, 10, 24, 10, 0}, {3, 4, 100, 34, 20, 1}, {5, 6, 0, 24, 0, 0}};
    struct payload_entry entries[4] = {
        {{0, 0, 0, 1}, 0}, {{0, 0, 1, 1}, 1}, {{1, 0, 0, 1}, 1}, {{1, 0, 1, 2}, 2}};
    struct payload_index index = {0, 77, 54, blobs, entries, 3, 4}, back;
    struct bytes out = {0};
    uint64_t seed = 3;
    payload_index_write(&index, &out);
    assert_int_equal(payload_index_parse("fuzz", out.data, out.len, &back, NULL), 0);
    assert_memory_equal(back.entries, entries, sizeof entries);
    payload_index_clear(&back);
    for (int i = 0; i < 5000; i++) {
        uint8_t *copy = malloc(out.len);
        size_t len = scratch_random(&seed) % 4 ? out.len : scratch_random(&seed) % out.len;
        memcpy(copy, out.data, out.len);
        copy[scratch_random(&seed) % out.len] ^= (uint8_t)(1u << scratch_random(&seed) % 8);
        assert_int_equal(payload_index_parse("fuzz", copy, len, &back, NULL), -1);
        struct bytes sealed = {0};
        bytes_put(&sealed, copy, len > 8 ? len - 8 : 0);
        bytes_put_u64(&sealed, payload_index_checksum(sealed.data, sealed.len));
        if (!payload_index_parse("fuzz", sealed.data, sealed.len, &back, NULL))
            payload_index_clear(&back);
        bytes_free(&sealed);
        free(copy);
    }
    bytes_free(&out);
}

/* A store of version 1: four payloads, and one of them once more as another rank's contribution. */
static void put_golden(const char *dir)
{
    struct payload_writer *w = writer(dir, 0);
    uint8_t data[5000];
    for (int i = 0; i < 5; i++) {
        struct payload_key k = i < 4 ? key(0, (uint32_t)i) : (struct payload_key){1, 3, 0, PAYLOAD_CONTRIBUTION};
        fill(data, sizeof data, (uint64_t)(i < 4 ? i : 2));
        assert_int_equal(payload_writer_put(w, k, data, sizeof data, NULL), 0);
    }
    assert_int_equal(payload_writer_finish(w, NULL), 0);
}

static void expect_golden(const char *dir)
{
    struct payload_reader *r = reader(dir, 1);
    uint8_t data[5000], out[5000];
    for (int i = 0; i < 5; i++) {
        struct payload_key k = i < 4 ? key(0, (uint32_t)i) : (struct payload_key){1, 3, 0, PAYLOAD_CONTRIBUTION};
        fill(data, sizeof data, (uint64_t)(i < 4 ? i : 2));
        assert_int_equal(payload_reader_get(r, k, out, sizeof out, NULL), sizeof out);
        assert_memory_equal(out, data, sizeof out);
    }
    payload_reader_close(r);
}

/* The files as the first version wrote them hold what is written now. */
static void test_golden(void **state)
{
    expect_golden("lib/trace/test/golden/v1"); /* run from the source folder */
    put_golden(*state);
    expect_golden(*state);
}

int main(void)
{
#define SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        SCRATCH(test_round_trip),     SCRATCH(test_same_content_once),
        SCRATCH(test_nothing_at_all), SCRATCH(test_threads),
        SCRATCH(test_keep),           SCRATCH(test_incomplete),
        SCRATCH(test_open_some),
        SCRATCH(test_unwritable),     SCRATCH(test_damaged),
        SCRATCH(test_fuzz),           SCRATCH(test_golden),
        SCRATCH(test_last_put_counts),
        SCRATCH(test_same_large_content_once),
        SCRATCH(test_room),           SCRATCH(test_pieces),
        SCRATCH(test_no_room_on_disk), SCRATCH(test_abort_large),
    };
    return cmocka_run_group_tests_name("payload store", tests, NULL, NULL);
}
