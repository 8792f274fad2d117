/* The log's bytes, and the replayer's rule under random interleavings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "c10d/log.h"
#include "c10d/replay.h"

static struct c10d_mutation text_mutation(enum c10d_kind kind, const char *key, const char *value,
                                          int64_t delta)
{
    return (struct c10d_mutation){kind, key, strlen(key), value, value ? strlen(value) : 0, delta};
}

static void append(struct c10d_log *log, uint32_t author, enum c10d_kind kind, const char *key,
                   const char *value, int64_t delta)
{
    struct c10d_mutation m = text_mutation(kind, key, value, delta);
    assert_int_equal(c10d_log_append(log, author, &m, NULL), 0);
}

static struct c10d_log *sample(void)
{
    struct c10d_log *log = c10d_log_create();
    append(log, 0, C10D_SET, "k", "value", 0);
    append(log, 1, C10D_ADD, "n", NULL, -3);
    append(log, C10D_AUTHOR_NONE, C10D_APPEND, "", "", 0);
    append(log, 2, C10D_BARRIER, "b", NULL, 8);
    append(log, 8191, C10D_QUEUE_PUSH, "queue", "x\1y", 0);
    return log;
}

static void round_trip(void **state)
{
    struct c10d_log *log = sample(), *back;
    struct bytes a = {0}, b = {0};
    struct prism_error err = {0};
    c10d_log_encode(log, &a);
    back = c10d_log_decode(a.data, a.len, &err);
    if (!back)
        fail_msg("%s", err.text);
    assert_int_equal(c10d_log_count(back), c10d_log_count(log));
    const struct c10d_record *r = c10d_log_at(back, 4);
    assert_int_equal(r->sequence, 5);
    assert_int_equal(r->author, 8191);
    assert_int_equal(r->mutation.kind, C10D_QUEUE_PUSH);
    assert_memory_equal(r->mutation.value, "x\1y", 3);
    assert_int_equal(c10d_log_at(back, 1)->mutation.delta, -3);
    assert_null(c10d_log_at(back, 5));
    c10d_log_encode(back, &b);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    bytes_free(&a);
    bytes_free(&b);
    c10d_log_destroy(log);
    c10d_log_destroy(back);
}

/* The bytes of docs/formats/store-log.md's example: whoever changes them needs a new version number. */
static void golden_bytes(void **state)
{
    static const uint8_t golden[] = {
        'P', 'R', 'S', 'M', 'S', 'T', 'O', 'R', 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,   0,   0,
        0,   0,   7,   0,   0,   0,   1,   0,   0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 'k', 'v', 'w'};
    struct c10d_log *log = c10d_log_create();
    struct bytes out = {0};
    append(log, 7, C10D_SET, "k", "vw", 0);
    c10d_log_encode(log, &out);
    assert_int_equal(out.len, sizeof golden + 8);
    assert_memory_equal(out.data, golden, sizeof golden);
    bytes_free(&out);
    c10d_log_destroy(log);
}

static void damage_is_refused(void **state)
{
    struct c10d_log *log = sample();
    struct bytes whole = {0};
    c10d_log_encode(log, &whole);
    for (size_t i = 0; i < whole.len; i++) {
        struct prism_error err = {0};
        uint8_t *cut = malloc(i + 1);
        memcpy(cut, whole.data, i);
        uint8_t *exact = realloc(cut, i ? i : 1);
        assert_null(c10d_log_decode(exact, i, &err));
        assert_int_equal(err.code, PRISM_EXIT_TRACE);
        free(exact);
        whole.data[i] ^= 0x40;
        assert_null(c10d_log_decode(whole.data, whole.len, NULL));
        whole.data[i] ^= 0x40;
    }
    struct prism_error err = {0};
    whole.data[8] = 2;
    assert_null(c10d_log_decode(whole.data, whole.len, &err));
    assert_non_null(strstr(err.text, "version 2, this Prism reads version 1"));
    bytes_free(&whole);
    c10d_log_destroy(log);
}

static void over_the_bounds_is_refused(void **state)
{
    struct c10d_log *log = c10d_log_create();
    struct prism_error err = {0};
    struct c10d_mutation m = text_mutation(C10D_SET, "k", "v", 0);
    m.value_len = C10D_VALUE_MAX + 1ull;
    assert_int_equal(c10d_log_append(log, 0, &m, &err), -1);
    m = text_mutation((enum c10d_kind)77, "k", "v", 0);
    assert_int_equal(c10d_log_append(log, 0, &m, NULL), -1);
    assert_int_equal(c10d_log_count(log), 0);
    c10d_log_destroy(log);
}

/* --- the replayer --- */

struct applied {
    char text[256];
};

static int note(void *ctx, const struct c10d_mutation *m, struct prism_error *err)
{
    struct applied *a = ctx;
    size_t used = strlen(a->text);
    snprintf(a->text + used, sizeof a->text - used, "%.*s=%.*s ", (int)m->key_len, (const char *)m->key,
             (int)m->value_len, (const char *)m->value);
    return 1;
}

static void replay_waits_for_the_sandbox(void **state)
{
    const uint32_t sandbox[] = {5, 2};
    struct c10d_log *log = c10d_log_create();
    struct applied a = {""};
    append(log, 0, C10D_SET, "x", "v0", 0);
    append(log, 2, C10D_SET, "x", "s2", 0);
    append(log, 1, C10D_SET, "x", "v1", 0);
    append(log, 5, C10D_SET, "x", "s5", 0);
    append(log, 3, C10D_SET, "x", "v3", 0);
    append(log, 5, C10D_SET, "y", "own", 0);
    struct c10d_replay *replay = c10d_replay_create(log, sandbox, 2, note, &a);
    assert_int_equal(c10d_replay_pending(replay), 3);
    c10d_replay_start(replay, NULL);
    assert_string_equal(a.text, "x=v0 ");
    c10d_replay_happened(replay, 5, "x", 1, NULL); /* out of the recorded order: rank 2's must come first */
    c10d_replay_happened(replay, 5, "nowhere", 7, NULL);
    c10d_replay_happened(replay, 1, "x", 1, NULL); /* not of the sandbox */
    assert_string_equal(a.text, "x=v0 ");
    c10d_replay_happened(replay, 2, "x", 1, NULL);
    assert_string_equal(a.text, "x=v0 x=v1 x=v3 ");
    assert_int_equal(c10d_replay_pending(replay), 0);
    c10d_replay_destroy(replay);
    c10d_log_destroy(log);
}

enum { KEYS = 4, RANKS = 6, RECORDS = 60 };

struct model {
    const struct c10d_log *log;
    const uint32_t *sandbox;
    size_t sandbox_count;
    unsigned happened[KEYS][RANKS];
    bool applied[RECORDS];
    int failures;
};

static bool in_sandbox(const struct model *m, uint32_t author)
{
    for (size_t i = 0; i < m->sandbox_count; i++)
        if (m->sandbox[i] == author)
            return true;
    return false;
}

static int key_of(const struct c10d_record *r)
{
    return ((const char *)r->mutation.key)[0] - 'a';
}

/* Rule, written down without the replayer's queues: may record i be applied now? */
static bool allowed(const struct model *m, size_t i)
{
    unsigned before[RANKS] = {0};
    const struct c10d_record *r = c10d_log_at(m->log, i);
    for (size_t j = 0; j < i; j++) {
        const struct c10d_record *q = c10d_log_at(m->log, j);
        if (key_of(q) == key_of(r) && in_sandbox(m, q->author))
            before[q->author]++;
    }
    for (int rank = 0; rank < RANKS; rank++)
        if (m->happened[key_of(r)][rank] < before[rank])
            return false;
    return true;
}

static int check_applied(void *ctx, const struct c10d_mutation *mutation, struct prism_error *err)
{
    struct model *m = ctx;
    size_t i = (size_t)mutation->delta; /* the record's index */
    const struct c10d_record *r = c10d_log_at(m->log, i);
    m->failures += m->applied[i] || in_sandbox(m, r->author) || !allowed(m, i);
    for (size_t j = 0; j < i; j++) { /* in the recorded order on its key */
        const struct c10d_record *q = c10d_log_at(m->log, j);
        if (key_of(q) == key_of(r) && !in_sandbox(m, q->author) && !m->applied[j])
            m->failures++;
    }
    m->applied[i] = true;
    return 1;
}

static void assert_nothing_is_late(const struct model *m)
{
    for (size_t i = 0; i < c10d_log_count(m->log); i++)
        if (!in_sandbox(m, c10d_log_at(m->log, i)->author) && allowed(m, i))
            assert_true(m->applied[i]);
}

static void interleave(unsigned seed)
{
    srand(seed);
    uint32_t sandbox[] = {(uint32_t)(rand() % 3), (uint32_t)(3 + rand() % 3)};
    struct c10d_log *log = c10d_log_create();
    for (int i = 0; i < RECORDS; i++) {
        char key[] = {(char)('a' + rand() % KEYS), 0};
        append(log, (uint32_t)(rand() % RANKS), C10D_ADD, key, NULL, i);
    }
    struct model m = {.log = log, .sandbox = sandbox, .sandbox_count = (size_t)(rand() % 3)};
    struct c10d_replay *replay = c10d_replay_create(log, sandbox, m.sandbox_count, check_applied, &m);
    c10d_replay_start(replay, NULL);
    assert_nothing_is_late(&m);
    /* each sandbox rank issues its mutations in its own order; ranks interleave at random */
    size_t at[2] = {0, 0}, done = 0;
    while (done < m.sandbox_count) {
        size_t who = (size_t)rand() % m.sandbox_count;
        while (at[who] < RECORDS && c10d_log_at(log, at[who])->author != sandbox[who])
            at[who]++;
        if (at[who] == RECORDS) {
            at[who]++;
            done++;
            continue;
        }
        if (at[who] > RECORDS)
            continue;
        const struct c10d_record *r = c10d_log_at(log, at[who]++);
        m.happened[key_of(r)][r->author]++;
        c10d_replay_happened(replay, r->author, r->mutation.key, r->mutation.key_len, NULL);
        assert_nothing_is_late(&m);
    }
    assert_int_equal(m.failures, 0);
    assert_int_equal(c10d_replay_pending(replay), 0);
    c10d_replay_destroy(replay);
    c10d_log_destroy(log);
}

static void random_interleavings(void **state)
{
    for (unsigned seed = 1; seed <= 300; seed++)
        interleave(seed);
}

static void replays_into_a_server(void **state)
{
    struct event_base *base = event_base_new();
    struct c10d_server *server = c10d_server_create(base, "127.0.0.1", 0, NULL, NULL);
    struct c10d_log *log = c10d_log_create();
    const uint32_t sandbox = 0;
    const void *value;
    size_t len;
    append(log, 1, C10D_ADD, "n", NULL, 1);
    append(log, 0, C10D_ADD, "n", NULL, 1);
    append(log, 2, C10D_ADD, "n", NULL, 1);
    append(log, 1, C10D_SET, "s", "x", 0);
    append(log, 1, C10D_DELETE, "s", NULL, 0);
    struct c10d_replay *replay = c10d_replay_create(log, &sandbox, 1, c10d_replay_apply_to_server, server);
    assert_int_equal(c10d_replay_start(replay, NULL), 0);
    assert_true(c10d_server_get(server, "n", 1, &value, &len));
    assert_memory_equal(value, "1", 1);
    assert_false(c10d_server_get(server, "s", 1, &value, &len));
    assert_int_equal(c10d_server_add(server, "n", 1, NULL), 1);
    assert_int_equal(c10d_replay_happened(replay, 0, "n", 1, NULL), 0);
    assert_true(c10d_server_get(server, "n", 1, &value, &len));
    assert_memory_equal(value, "3", 1);
    assert_int_equal(c10d_server_num_keys(server), 1);
    c10d_replay_destroy(replay);
    c10d_log_destroy(log);
    c10d_server_destroy(server);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(golden_bytes),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(over_the_bounds_is_refused),
        cmocka_unit_test(replay_waits_for_the_sandbox),
        cmocka_unit_test(random_interleavings),
        cmocka_unit_test(replays_into_a_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
