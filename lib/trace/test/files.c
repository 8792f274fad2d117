/* files.c - is the folder what trace.json says? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/file.h"
#include "scratch.h"
#include "trace/trace.h"

static const struct trace_graph graph = {16, 8, 5};

static void put(const char *dir, const char *name, const char *text)
{
    char path[1024];
    scratch_path(path, sizeof path, dir, name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void drop(const char *dir, const char *name)
{
    char path[1024];
    scratch_path(path, sizeof path, dir, name);
    assert_int_equal(unlink(path), 0);
}

/* As written with what lies in dir now, and read. */
static struct trace_manifest manifest(const char *dir, bool complete, bool calibrated)
{
    struct trace_manifest back, m = {.world = 16, .gpus_per_node = 8, .nodes = 1, .iterations = 5, .complete = complete, .calibrated = calibrated};
    assert_int_equal(trace_manifest_write(dir, &m, NULL), 0);
    assert_int_equal(trace_manifest_read(dir, &back, NULL), 0);
    return back;
}

static void expect(const char *dir, const struct trace_manifest *m, unsigned how, const char *says)
{
    struct prism_error err = {0};
    int rc = trace_check(dir, m, &graph, how, &err);
    if (!says ? rc : !rc || !strstr(err.text, says) || strchr(err.text, '\n') || err.code != PRISM_EXIT_TRACE)
        fail_msg("\"%s\" instead of \"%s\"", rc ? err.text : "whole", says ? says : "whole");
}

static void test_graph(void **state)
{
    static const struct {
        struct trace_graph g;
        const char *says;
    } cases[] = {
        {{17, 8, 5}, "d/trace.json says 16 ranks and d/graph.bin says 17"},
        {{16, 9, 5}, "says 8 GPUs a node and d/graph.bin says 9"},
        {{16, 8, 6}, "says 5 iterations and d/graph.bin says 6"},
    };
    struct trace_manifest m = {.version = 2, .world = 16, .gpus_per_node = 8, .iterations = 5, .complete = true};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prism_error err = {0};
        assert_int_equal(trace_check("d", &m, &cases[i].g, 0, &err), -1);
        assert_int_equal(err.code, PRISM_EXIT_TRACE);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_non_null(strstr(err.text, "capture again"));
    }
    expect("d", &m, 0, NULL); /* an earlier version names no files */
    m.complete = false;       /* nobody has looked for iterations */
    assert_int_equal(trace_check("d", &m, &cases[2].g, 0, NULL), 0);
    m.complete = true;
    struct trace_graph unknown = {16, 8, TRACE_ITERATIONS_UNKNOWN};
    assert_int_equal(trace_check("d", &m, &unknown, 0, NULL), 0);
}

/* Files are named from the end of the phase that writes them. */
static void test_phases(void **state)
{
    put(*state, "store.log", "store");
    put(*state, "network.json", "network");
    put(*state, "durations.json", "durations");
    put(*state, "report.json", "not of the trace");
    struct trace_manifest m = manifest(*state, false, false);
    assert_int_equal(m.nfiles, 0);
    expect(*state, &m, 0, NULL);
    trace_manifest_clear(&m);
    m = manifest(*state, true, false);
    assert_int_equal(m.nfiles, 1);
    assert_string_equal(m.files[0].name, "store.log");
    assert_int_equal(m.files[0].bytes, 5);
    put(*state, "durations.json", "others");
    put(*state, "network.json", "another");
    expect(*state, &m, 0, NULL);
    trace_manifest_clear(&m);
    m = manifest(*state, true, true);
    assert_int_equal(m.nfiles, 3);
    expect(*state, &m, 0, NULL);
    drop(*state, "report.json");
    expect(*state, &m, TRACE_CHECK_ALL, NULL);
    put(*state, "payload-0.idx", "of the one node");
    expect(*state, &m, 0, NULL);
    put(*state, "payload-1.idx", "of another");
    expect(*state, &m, 0, "trace.json says that 1 node captured, and there is ");
    trace_manifest_clear(&m);
}

static void test_damage(void **state)
{
    static const char *const names[] = {"store.log", "pmix.log", "folding.json", "switching.json", "durations.json", "network.json"};
    for (size_t i = 0; i < 6; i++)
        put(*state, names[i], "contents");
    struct trace_manifest m = manifest(*state, true, true);
    assert_int_equal(m.nfiles, 6);
    expect(*state, &m, 0, NULL);
    for (size_t i = 0; i < 6; i++) {
        char says[128];
        put(*state, names[i], "content");
        snprintf(says, sizeof says, "/%s has 7 bytes and had 8 when trace.json was written", names[i]);
        expect(*state, &m, 0, says);
        put(*state, names[i], "Contents");
        snprintf(says, sizeof says, "/%s has the checksum ", names[i]);
        expect(*state, &m, 0, says);
        drop(*state, names[i]);
        snprintf(says, sizeof says, "/%s is missing, and trace.json names it", names[i]);
        expect(*state, &m, 0, says);
        struct trace_manifest without = manifest(*state, true, true);
        put(*state, names[i], "contents");
        snprintf(says, sizeof says, "/%s is not of this trace", names[i]);
        expect(*state, &without, 0, says);
        trace_manifest_clear(&without);
        expect(*state, &m, 0, NULL);
    }
    trace_manifest_clear(&m);
}

/* What is not read, or will be replaced, may be what it likes; and there is a way out of a profile that was edited. */
static void test_left_out(void **state)
{
    put(*state, "network.json", "network");
    put(*state, "durations.json", "durations");
    struct trace_manifest m = manifest(*state, true, true);
    put(*state, "network.json", "edited!");
    expect(*state, &m, 0, "--network=FILE");
    expect(*state, &m, TRACE_CHECK_CALIBRATES, "network.json has the checksum");
    expect(*state, &m, TRACE_CHECK_OTHER_NETWORK, NULL);
    put(*state, "durations.json", "d");
    expect(*state, &m, TRACE_CHECK_OTHER_NETWORK, "calibrate again");
    expect(*state, &m, TRACE_CHECK_OTHER_NETWORK | TRACE_CHECK_CALIBRATES, NULL);
    expect(*state, &m, TRACE_CHECK_OTHER_NETWORK | TRACE_CHECK_NO_DURATIONS, "durations.json has 1 bytes"); /* damaged all the same */
    assert_false(trace_has_stray(*state, &m, "durations.json"));
    drop(*state, "network.json"); /* it will be measured */
    expect(*state, &m, TRACE_CHECK_CALIBRATES, NULL);
    trace_manifest_clear(&m);
    drop(*state, "durations.json");
    m = manifest(*state, true, true);
    put(*state, "durations.json", "of another trace");
    assert_true(trace_has_stray(*state, &m, "durations.json"));
    expect(*state, &m, 0, "durations.json is not of this trace");
    expect(*state, &m, TRACE_CHECK_NO_DURATIONS, NULL);
    trace_manifest_clear(&m);
}

/* Logs end with a checksum of their own; only who wants to know all reads large ones for it. */
static void test_large(void **state)
{
    size_t n = 3u << 20;
    char *text = malloc(n + 1), path[1024];
    assert_non_null(text);
    memset(text, 'x', n);
    text[n] = 0;
    put(*state, "store.log", text);
    put(*state, "folding.json", text);
    struct trace_manifest m = manifest(*state, true, false);
    scratch_flip(*state, "store.log", (long)n / 2);
    expect(*state, &m, 0, NULL);
    expect(*state, &m, TRACE_CHECK_ALL, "store.log has the checksum");
    scratch_flip(*state, "store.log", (long)n / 2);
    expect(*state, &m, TRACE_CHECK_ALL, NULL);
    scratch_flip(*state, "folding.json", (long)n / 2);
    expect(*state, &m, 0, "folding.json has the checksum");
    scratch_path(path, sizeof path, *state, "store.log");
    assert_int_equal(truncate(path, (off_t)n - 1), 0);
    expect(*state, &m, 0, "store.log has 3145727 bytes and had 3145728");
    trace_manifest_clear(&m);
    free(text);
}

static void test_forget(void **state)
{
    static const char *const names[] = {"graph.bin",    "store.log",    "payload-0.dat", "payload-1.idx", "durations.json",
                                        "network.json", "report.json", "trace.json",    "mine.txt",      "payload-sizes.csv", "payload-1.idx.old", "payload-.idx"};
    for (size_t i = 0; i < 12; i++)
        put(*state, names[i], "x");
    trace_forget(*state);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(scratch_size(*state, names[i]), i < 5 ? -1 : 1);
    trace_forget("no/such/folder");
}

int main(void)
{
#define SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph), SCRATCH(test_phases), SCRATCH(test_damage),
        SCRATCH(test_left_out),       SCRATCH(test_large),  SCRATCH(test_forget),
    };
    return cmocka_run_group_tests_name("trace files", tests, NULL, NULL);
}
