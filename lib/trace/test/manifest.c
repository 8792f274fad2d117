#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/file.h"
#include "scratch.h"
#include "trace/trace.h"

static char program_[] = "./moetrain", layers_[] = "--layers=4", odd_[] = "a \"quoted\" \xff word",
            threads_[] = "OMP_NUM_THREADS=1", cwd_[] = "/tmp/w", id_[] = "0123456789abcdef",
            created_[] = "2026-01-01T00:00:00Z", trace_[] = "fedcba9876543210";
static char *argv_[] = {program_, layers_, odd_, NULL};
static char *env_[] = {threads_, NULL};
static uint32_t sandbox_[] = {0, 513};

static struct trace_manifest sample(void)
{
    return (struct trace_manifest){.world = 1024,
                                   .gpus_per_node = 8,
                                   .nodes = 2,
                                   .complete = true,
                                   .iterations = 5,
                                   .payload = TRACE_PAYLOAD_CONTROL,
                                   .sandbox = sandbox_,
                                   .nsandbox = 2,
                                   .argv = argv_,
                                   .env = env_,
                                   .cwd = cwd_,
                                   .program_id = id_,
                                   .created = created_,
                                   .trace_id = trace_};
}

static void expect(const char *dir, const char *text)
{
    struct trace_manifest m;
    struct prism_error err = {0};
    assert_int_equal(trace_manifest_read(dir, &m, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
    assert_null(m.argv);
}

/* What dir's manifest says is the sample, as that version has it. */
static void expect_sample(const char *dir, uint32_t version)
{
    struct trace_manifest m = sample(), back;
    struct prism_error err = {0};
    if (trace_manifest_read(dir, &back, &err))
        fail_msg("%s (run from the source folder)", err.text);
    assert_int_equal(back.version, version);
    assert_int_equal(back.payload, version > 1 ? TRACE_PAYLOAD_CONTROL : TRACE_PAYLOAD_UNSAID);
    assert_int_equal(back.world, 1024);
    assert_int_equal(back.gpus_per_node, 8);
    assert_int_equal(back.nodes, 2);
    assert_true(back.complete);
    assert_false(back.calibrated);
    assert_int_equal(back.iterations, 5);
    assert_int_equal(back.nsandbox, 2);
    assert_memory_equal(back.sandbox, sandbox_, sizeof sandbox_);
    for (int i = 0; i < 3; i++)
        assert_string_equal(back.argv[i], argv_[i]);
    assert_null(back.argv[3]);
    assert_string_equal(back.env[0], env_[0]);
    assert_null(back.env[1]);
    assert_string_equal(back.cwd, m.cwd);
    assert_string_equal(back.program_id, m.program_id);
    assert_string_equal(back.created, m.created);
    assert_string_equal(back.trace_id, m.trace_id);
    trace_manifest_clear(&back);
    assert_null(back.argv);
    trace_manifest_clear(&back);
}

static void test_round_trip(void **state)
{
    struct trace_manifest m = sample();
    assert_int_equal(trace_manifest_write(*state, &m, NULL), 0);
    expect_sample(*state, TRACE_VERSION);
}

/* As the versions wrote it. */
static void test_golden(void **state)
{
    (void)state;
    expect_sample("lib/trace/test/golden/v1", 1);
    expect_sample("lib/trace/test/golden/v2", 2);
    expect_sample("lib/trace/test/golden/v3", 3);
    static const struct trace_graph graph = {1024, 8, 5};
    struct trace_manifest m;
    assert_int_equal(trace_manifest_read("lib/trace/test/golden/v3", &m, NULL), 0);
    assert_int_equal(m.nfiles, 1);
    assert_int_equal(trace_check("lib/trace/test/golden/v3", &m, &graph, TRACE_CHECK_ALL, NULL), 0);
    trace_manifest_clear(&m);
}

static void read_golden(const char *version, struct bytes *text)
{
    char path[64];
    snprintf(path, sizeof path, "lib/trace/test/golden/%s/trace.json", version);
    assert_int_equal(file_read(path, 1 << 20, text, NULL), 0);
}

static void expect_damaged(const void *data, size_t len, const char *what, size_t at)
{
    struct trace_manifest m;
    struct prism_error err = {0};
    if (!trace_manifest_parse("golden", data, len, &m, &err))
        fail_msg("%s at %zu is taken", what, at);
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
}

/* With a checksum no change stays unseen: not of a number, of white space, of the version, of the checksum itself. */
static void test_every_bit(void **state)
{
    struct bytes text = {0};
    struct trace_manifest m;
    (void)state;
    read_golden("v3", &text);
    char *data = (char *)text.data;
    for (size_t i = 0; i < text.len; i++)
        expect_damaged(data, i, "cut", i);
    for (size_t i = 0; i < 8 * text.len; i++) {
        data[i / 8] = (char)(data[i / 8] ^ (1 << i % 8));
        expect_damaged(data, text.len, "flipped bit", i);
        data[i / 8] = (char)(data[i / 8] ^ (1 << i % 8));
    }
    char *more = malloc(text.len + 1);
    assert_non_null(more);
    memcpy(more, data, text.len);
    more[text.len] = '\n';
    expect_damaged(more, text.len + 1, "another byte", text.len);
    free(more);
    assert_int_equal(trace_manifest_parse("golden", data, text.len, &m, NULL), 0);
    trace_manifest_clear(&m);
    bytes_free(&text);
}

/* Replaces the first `from` in the golden file of that version, seals it again where it has a checksum, and reads it. */
static int parse_changed(const char *version, const char *from, const char *to, struct prism_error *err)
{
    struct bytes text = {0}, out = {0};
    struct trace_manifest m;
    read_golden(version, &text);
    const char *at = memmem(text.data, text.len, from, strlen(from));
    assert_non_null(at);
    size_t before = (size_t)(at - (const char *)text.data), behind = before + strlen(from);
    bytes_put(&out, text.data, before);
    bytes_put(&out, to, strlen(to));
    bytes_put(&out, text.data + behind, text.len - behind);
    trace_manifest_seal((char *)out.data, out.len);
    int rc = trace_manifest_parse("golden", out.data, out.len, &m, err);
    trace_manifest_clear(&m);
    bytes_free(&text);
    bytes_free(&out);
    return rc;
}

static void test_ranges(void **state)
{
    static const struct {
        const char *from, *to, *says; /* NULL: right */
    } cases[] = {
        {"\"world\": 1024", "\"world\": 1048576", NULL},
        {"\"world\": 1024", "\"world\": 1048577", "\"world\" is 1048577, from 1 to 1048576 is allowed"},
        {"\"world\": 1024", "\"world\": 2147483648", "\"world\" is 2147483648, from 1 to 1048576"},
        {"\"world\": 1024", "\"world\": 0", "\"world\" is 0, from 1"},
        {"\"world\": 1024", "\"world\": -4", "\"world\" is -4, from 1"},
        {"\"world\": 1024", "\"world\": 1024.0", "\"world\" is missing or has a wrong value"},
        {"\"gpus_per_node\": 8", "\"gpus_per_node\": 0", "\"gpus_per_node\" is 0, from 1 to 100000 is allowed"},
        {"\"gpus_per_node\": 8", "\"gpus_per_node\": 4294967295", "\"gpus_per_node\" is 4294967295"},
        {"\"gpus_per_node\": 8", "\"gpus_per_node\": 100000", NULL},
        {"\"nodes\": 2", "\"nodes\": 0", NULL},
        {"\"nodes\": 2", "\"nodes\": 4097", "\"nodes\" is 4097, from 0 to 4096 is allowed"},
        {"\"iterations\": 5", "\"iterations\": -1", "\"iterations\" is -1, from 0 to 2147483647 is allowed"},
        {"\"iterations\": 5", "\"iterations\": 2147483648", "\"iterations\" is 2147483648"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct prism_error err = {0};
        int rc = parse_changed(i % 2 ? "v2" : "v3", cases[i / 2].from, cases[i / 2].to, &err);
        if (!cases[i / 2].says ? rc : !rc || !strstr(err.text, cases[i / 2].says))
            fail_msg("%s: %s", cases[i / 2].to, rc ? err.text : "taken");
    }
}

/* An earlier version has no checksum: one that has lost its version is not taken for it. What the list of files may hold. */
static void test_sealed(void **state)
{
    static const char *const bad[][2] = {
        {"\"version\": 3", "\"version\": 2"},     {"\"version\": 3", "\"version\": 1"}, {"\"bytes\": 10", "\"bytes\": -1"},
        {"\"bytes\": 10", "\"bytes\": \"10\""}, {"folding.json", "../folding.json"},       {"\"folding.json\"", "\"\""},
        {"\"xxh64\": \"", "\"xxh64\": \"0"},    {"\"files\"", "\"fils\""},         {"\"xxh64\"", "\"xxh65\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct prism_error err = {0};
        if (!parse_changed("v3", bad[i][0], bad[i][1], &err))
            fail_msg("%s is taken", bad[i][1]);
        assert_non_null(strstr(err.text, "damaged"));
    }
    assert_int_equal(parse_changed("v3", "folding.json", "of-later.log", NULL), 0);
    char none[] = "{}", twice[] = "\"checksum\": \"0123456789abcdef\" \"checksum\": \"0123456789abcdef\"";
    assert_false(trace_manifest_seal(none, strlen(none)));
    assert_false(trace_manifest_seal(twice, strlen(twice)));
}

/* The same or less than the trace has may be asked for; a trace that does not say has all. */
static void test_payload(void **state)
{
    static const struct {
        enum trace_payload has, asked, delivered; /* UNSAID: refused */
    } cases[] = {
        {TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_UNSAID, TRACE_PAYLOAD_FULL},       {TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL},
        {TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_NONE, TRACE_PAYLOAD_NONE},         {TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_UNSAID, TRACE_PAYLOAD_CONTROL},
        {TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL}, {TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_FULL, TRACE_PAYLOAD_UNSAID},
        {TRACE_PAYLOAD_NONE, TRACE_PAYLOAD_UNSAID, TRACE_PAYLOAD_NONE},       {TRACE_PAYLOAD_NONE, TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_UNSAID},
        {TRACE_PAYLOAD_UNSAID, TRACE_PAYLOAD_UNSAID, TRACE_PAYLOAD_FULL},     {TRACE_PAYLOAD_UNSAID, TRACE_PAYLOAD_CONTROL, TRACE_PAYLOAD_CONTROL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace_manifest m = {.payload = cases[i].has};
        struct prism_error err = {0};
        enum trace_payload p = cases[i].asked;
        assert_int_equal(trace_payload_agree(&m, "d", &p, &err), cases[i].delivered ? 0 : -1);
        if (cases[i].delivered)
            assert_int_equal(p, cases[i].delivered);
        else
            assert_true(err.code == PRISM_EXIT_TRACE && strstr(err.text, "trace d was captured with --prism-payload="));
    }
    assert_int_equal(trace_payload_of("control"), TRACE_PAYLOAD_CONTROL);
    assert_int_equal(trace_payload_of("some"), TRACE_PAYLOAD_UNSAID);
    assert_int_equal(trace_payload_of(NULL), TRACE_PAYLOAD_UNSAID);
    assert_string_equal(trace_payload_name(TRACE_PAYLOAD_NONE), "none");
}

static void test_empty(void **state)
{
    struct trace_manifest m = {.world = 1, .gpus_per_node = 1}, back;
    struct prism_error err = {0};
    assert_int_equal(trace_manifest_write(*state, &m, NULL), 0);
    struct trace_manifest large = {.world = TRACE_WORLD_MAX + 1, .gpus_per_node = 1};
    assert_int_equal(trace_manifest_write(*state, &large, &err), -1);
    assert_non_null(strstr(err.text, "\"world\" of 1048577: a trace has from 1 to 1048576"));
    assert_int_equal(trace_manifest_read(*state, &back, NULL), 0);
    assert_string_equal(back.cwd, "");
    assert_null(back.argv[0]);
    trace_manifest_clear(&back);
}

static void put_text(const char *dir, const char *text)
{
    char path[1024];
    scratch_path(path, sizeof path, dir, "trace.json");
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void test_bad_files(void **state)
{
    char path[1024];
    scratch_path(path, sizeof path, *state, "nowhere");
    expect(path, "No such file");
    expect(*state, "has no trace.json");
    put_text(*state, "{}");
    expect(*state, "not a manifest of a Prism trace");
    put_text(*state, "{\"format\": \"prism-trace\", \"version\": 99}");
    expect(*state, "version 99");
    put_text(*state, "{\"format\": \"prism-trace\", \"version\": 1}");
    expect(*state, "\"trace_id\" is missing");
    put_text(*state, "{\"format\": \"prism-trace\", \"version\": 2, \"payload\": \"some\"}");
    expect(*state, "is missing or has a wrong value");
    struct trace_manifest m = sample();
    sandbox_[1] = 1024;
    assert_int_equal(trace_manifest_write(*state, &m, NULL), 0);
    sandbox_[1] = 513;
    expect(*state, "\"sandbox\"");
    assert_int_equal(trace_manifest_write(*state, &m, NULL), 0);
    scratch_truncate(*state, "trace.json", -4);
    expect(*state, "damaged");
    scratch_path(path, sizeof path, *state, "trace.json");
    expect(path, "not a folder");
}

static void test_unwritable(void **state)
{
    struct trace_manifest m = sample();
    struct prism_error err = {0};
    char path[1024];
    scratch_path(path, sizeof path, *state, "nowhere");
    assert_int_equal(trace_manifest_write(path, &m, &err), -1);
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
    assert_non_null(strstr(err.text, "nowhere"));
    if (geteuid() == 0)
        return; /* root writes everywhere */
    err.code = 0;
    assert_int_equal(chmod(*state, 0500), 0);
    assert_int_equal(trace_manifest_write(*state, &m, &err), -1);
    assert_non_null(strstr(err.text, "Permission denied"));
    assert_int_equal(chmod(*state, 0700), 0);
}

static void test_match(void **state)
{
    struct trace_manifest m = sample();
    struct prism_error err = {0};
    assert_int_equal(trace_manifest_match(&m, "d", "0123456789abcdef", 1024, &err), 0);
    assert_int_equal(trace_manifest_match(&m, "d", "0123456789abcdef", 512, &err), -1);
    assert_non_null(strstr(err.text, "world of 1024 ranks, not 512"));
    err.code = 0;
    assert_int_equal(trace_manifest_match(&m, "d", "1123456789abcdef", 1024, &err), -1);
    assert_non_null(strstr(err.text, "another program"));
    err.code = 0;
    m.complete = false;
    assert_int_equal(trace_manifest_match(&m, "d", "0123456789abcdef", 1024, &err), -1);
    assert_non_null(strstr(err.text, "incomplete"));
    assert_int_equal(err.code, PRISM_EXIT_TRACE);
}

static void test_program_id(void **state)
{
    char path[1024];
    scratch_path(path, sizeof path, *state, "program");
    assert_int_equal(file_write_atomic(path, "one", 3, 0755, NULL), 0);
    char ab[] = "ab", c_[] = "c", a_[] = "a", bc[] = "bc", sh[] = "sh", no[] = "prism-no-such-program";
    char *argv[] = {path, ab, c_, NULL}, *other[] = {path, a_, bc, NULL}, *shell[] = {sh, NULL},
         *missing[] = {no, NULL}, *none[] = {NULL};
    char *a = trace_program_id(argv), *again = trace_program_id(argv), *b = trace_program_id(other);
    assert_int_equal(strlen(a), 16);
    assert_string_equal(a, again);
    assert_string_not_equal(a, b);
    assert_int_equal(file_write_atomic(path, "two", 3, 0755, NULL), 0);
    char *changed = trace_program_id(argv), *c = trace_program_id(shell), *d = trace_program_id(missing),
         *e = trace_program_id(none);
    assert_string_not_equal(a, changed);
    assert_string_not_equal(c, d);
    free(a);
    free(again);
    free(b);
    free(changed);
    free(c);
    free(d);
    free(e);
}

/* Damaged text never crashes, and what is accepted can be cleared. */
static void test_fuzz(void **state)
{
    struct trace_manifest m = sample();
    struct bytes text = {0};
    char path[1024];
    uint64_t seed = 7;
    assert_int_equal(trace_manifest_write(*state, &m, NULL), 0);
    scratch_path(path, sizeof path, *state, "trace.json");
    assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        uint8_t *copy = malloc(text.len);
        size_t len = scratch_random(&seed) % 4 ? text.len : scratch_random(&seed) % text.len;
        memcpy(copy, text.data, text.len);
        for (uint64_t k = scratch_random(&seed) % 4; k > 0; k--)
            copy[scratch_random(&seed) % text.len] = (uint8_t)scratch_random(&seed);
        trace_manifest_seal((char *)copy, len); /* what its reader does with what it would take */
        struct prism_error err = {0};
        if (!trace_manifest_parse("fuzz", copy, len, &m, &err))
            trace_manifest_clear(&m);
        else
            assert_int_equal(err.code, PRISM_EXIT_TRACE);
        free(copy);
    }
    bytes_free(&text);
}

int main(void)
{
#define SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        SCRATCH(test_round_trip), SCRATCH(test_empty),      SCRATCH(test_bad_files), SCRATCH(test_unwritable),
        SCRATCH(test_match),      SCRATCH(test_program_id), SCRATCH(test_fuzz),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_payload),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_sealed),
    };
    return cmocka_run_group_tests_name("trace manifest", tests, NULL, NULL);
}
