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
    struct trace_manifest m = {0}, back;
    assert_int_equal(trace_manifest_write(*state, &m, NULL), 0);
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
    };
    return cmocka_run_group_tests_name("trace manifest", tests, NULL, NULL);
}
