/* The option table, who beats whom, the shape of jobs and allocations, and the variables they become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client.h"
#include "options.h"
#include "shape.h"

static void set_line(struct options *o, enum option_id id, const char *text)
{
    struct prism_error err = {0};
    if (options_set(o, id, text, OPTION_FROM_COMMAND_LINE, &err))
        fail_msg("%s", err.text);
}

static void clear_environment(void)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        unsetenv(option_table[i].variable);
}

static void test_table(void **state)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];
        assert_memory_equal(row->name, "prism-", 6);
        assert_memory_equal(row->variable, "PRISM_", 6);
        assert_true(row->takes == OPTION_FLAG ? !row->argument : row->argument != NULL);
        assert_non_null(row->doc);
        assert_non_null(row->check);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(row->name, option_table[j].name);
            assert_string_not_equal(row->variable, option_table[j].variable);
        }
    }
}

static void test_precedence(void **state)
{
    struct options o = {0};
    clear_environment();
    setenv("PRISM_SANDBOX", "5", 1);
    setenv("PRISM_ASSISTANTS", "", 1);
    setenv("PRISM_EMULATE", "0", 1);
    set_line(&o, OPTION_EMULATE, NULL);
    assert_int_equal(options_read_environment(&o, NULL), 0);
    assert_string_equal(o.text[OPTION_SANDBOX], "5");
    assert_int_equal(o.source[OPTION_SANDBOX], OPTION_FROM_ENVIRONMENT);
    assert_int_equal(o.source[OPTION_ASSISTANTS], OPTION_UNSET);
    assert_string_equal(o.text[OPTION_EMULATE], "");
    assert_true(options_emulate(&o));
    set_line(&o, OPTION_SANDBOX, "7");
    assert_int_equal(options_set(&o, OPTION_SANDBOX, "9", OPTION_FROM_ENVIRONMENT, NULL), 0);
    assert_string_equal(o.text[OPTION_SANDBOX], "7");
    set_line(&o, OPTION_SANDBOX, "8");
    assert_string_equal(o.text[OPTION_SANDBOX], "8");
    set_line(&o, OPTION_EMULATE, "0");
    assert_false(options_emulate(&o));
    options_clear(&o);
    assert_false(options_emulate(&o));
    clear_environment();
}

static void test_bare_values(void **state)
{
    struct options o = {0};
    struct prism_error err = {0};
    set_line(&o, OPTION_EMULATE, "(null)");
    assert_true(options_emulate(&o));
    assert_int_equal(options_number(&o, OPTION_EMULATE, 42), 42);
    set_line(&o, OPTION_SCRATCH, NULL);
    assert_string_equal(o.text[OPTION_SCRATCH], "1");
    assert_int_equal(options_set(&o, OPTION_TRACE, NULL, OPTION_FROM_COMMAND_LINE, &err), -1);
    assert_non_null(strstr(err.text, "--prism-trace needs a value"));
    options_clear(&o);
}

static void test_refused_values(void **state)
{
    static const struct {
        enum option_id id;
        const char *text, *says;
    } bad[] = {{OPTION_EMULATE, "x", "--prism-emulate=x: 'x' is not a number: 0 to 10000000 is allowed"},
               {OPTION_EMULATE, "-1", "--prism-emulate=-1"},
               {OPTION_EMULATE, "10000001", "out of range"},
               {OPTION_EMULATE, "", "--prism-emulate=: '' is not a number"},
               {OPTION_SANDBOX, "1,1", "--prism-sandbox=1,1: rank 1 is listed twice"},
               {OPTION_ASSISTANTS, "two", "--prism-assistants=two"},
               {OPTION_PHASE, "all", "one of auto, capture, calibrate, emulate is allowed"},
               {OPTION_TRACE, "", "the path is empty"},
               {OPTION_TRACE, "a\nb", "control character"},
               {OPTION_GPUS_PER_NODE, "0", "1 to 1024 is allowed"},
               {OPTION_LAYOUT, "tp8", "--prism-layout=tp8"},
               {OPTION_SLICES, "some", "auto, all or a number"},
               {OPTION_SLICES, "0", "auto, all or a number"},
               {OPTION_ITERATIONS, "0", "--prism-iterations=0"},
               {OPTION_PAYLOAD, "half", "full, control, none"},
               {OPTION_ON_DIVERGENCE, "ignore", "stop, warn"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct options o = {0};
        struct prism_error err = {0};
        assert_int_equal(options_set(&o, bad[i].id, bad[i].text, OPTION_FROM_COMMAND_LINE, &err), -1);
        if (!strstr(err.text, bad[i].says))
            fail_msg("'%s' does not say '%s'", err.text, bad[i].says);
        assert_int_equal(o.source[bad[i].id], OPTION_UNSET);
    }
    struct options o = {0};
    struct prism_error err = {0};
    setenv("PRISM_SCRATCH", "maybe", 1);
    assert_int_equal(options_read_environment(&o, &err), -1);
    assert_non_null(strstr(err.text, "PRISM_SCRATCH=maybe: 'maybe' is unknown: one of 0, 1 is allowed"));
    options_clear(&o);
    clear_environment();
}

static void test_cross_checks(void **state)
{
    struct options o = {0};
    struct prism_error err = {0};
    set_line(&o, OPTION_SANDBOX, "0,63");
    assert_int_equal(options_check(&o, 0, &err), 0);
    assert_int_equal(options_check(&o, 64, &err), 0);
    assert_int_equal(options_check(&o, 63, &err), -1);
    assert_non_null(strstr(err.text, "rank 63 is outside the world: ranks 0 to 62 are allowed"));
    set_line(&o, OPTION_FOLD, "dp");
    assert_int_equal(options_check(&o, 64, NULL), -1);
    set_line(&o, OPTION_LAYOUT, "tp:8,dp:8");
    assert_int_equal(options_check(&o, 64, NULL), 0);
    assert_int_equal(options_check(&o, 128, NULL), -1);
    set_line(&o, OPTION_FOLD, "pp");
    assert_int_equal(options_check(&o, 64, NULL), -1);
    options_clear(&o);
}

struct shape_case {
    const char *emulate, *sandbox, *assistants, *gpus_per_node;
    struct shape_request request;
    struct shape want;  /* 0 = not looked at */
    const char *says;   /* part of the error; NULL = succeeds */
};

static const struct shape_case shape_cases[] = {
    /* N given */
    {"64", NULL, NULL, NULL, {0}, {.world = 64, .nodes = 8, .gpus_per_node = 8, .devices = 2, .physical_nodes = 1, .devices_per_node = 2, .cpus_per_task = 1}, NULL},
    {"8192", "0,17,4096-4099", "2", NULL, {0}, {.nodes = 1024, .devices = 8, .physical_nodes = 1, .devices_per_node = 8}, NULL},
    {"8192", "0-9", NULL, NULL, {0}, {.devices = 20, .physical_nodes = 3, .devices_per_node = 7}, NULL},
    {"64", "0-3", "0", NULL, {0}, {.devices = 4, .devices_per_node = 4}, NULL},
    {"4", NULL, NULL, NULL, {0}, {.nodes = 1, .gpus_per_node = 4}, NULL},
    {"1", NULL, NULL, NULL, {0}, {.nodes = 1, .gpus_per_node = 1, .devices = 1}, NULL},
    {"16", NULL, NULL, NULL, {.nodes = 4}, {.nodes = 4, .gpus_per_node = 4}, NULL},
    {"64", NULL, NULL, "4", {.nodes = 16}, {.nodes = 16, .gpus_per_node = 4}, NULL},
    {"64", NULL, NULL, NULL, {.gpus_per_node = 4}, {.nodes = 16, .gpus_per_node = 4}, NULL},
    {"64", "0-5", "0", "32", {.gpus_per_node = 4}, {.nodes = 2, .gpus_per_node = 32, .physical_nodes = 2, .devices_per_node = 3}, NULL},
    {"13", NULL, NULL, NULL, {0}, {0}, "13 ranks are not a multiple of 8 GPUs a node"},
    {"12", NULL, NULL, "8", {0}, {0}, "not a multiple"},
    {"64", NULL, NULL, NULL, {.nodes = 3}, {0}, "64 ranks are not 3 nodes (-N) x 8 GPUs"},
    {"64", NULL, NULL, NULL, {.nodes = 2}, {0}, "PRISM_NODES sets the real nodes"},
    {"64", "64", NULL, NULL, {0}, {0}, "rank 64 is outside the world"},
    /* N from the request */
    {"", NULL, NULL, NULL, {.nodes = 1024, .tasks = 8192, .gpus_per_node = 8, .cpus_per_task = 12}, {.world = 8192, .nodes = 1024, .devices_per_node = 2, .cpus_per_task = 24}, NULL},
    {"", NULL, NULL, NULL, {.nodes = 1024, .tasks_per_node = 8}, {.world = 8192, .nodes = 1024, .tasks = 8192}, NULL},
    {"", NULL, NULL, NULL, {.nodes = 16, .tasks_per_node = 1, .gpus_per_node = 8, .cpus_per_task = 96}, {.world = 128, .nodes = 16, .tasks = 16, .cpus_per_task = 24}, NULL},
    {"", NULL, NULL, NULL, {.nodes = 16}, {.world = 128}, NULL},
    {"", NULL, NULL, NULL, {.tasks = 64}, {.world = 64, .nodes = 8}, NULL},
    {"", NULL, NULL, NULL, {.gpus = 64}, {.world = 64, .nodes = 8}, NULL},
    {"", NULL, NULL, NULL, {.gpus_per_node = 4}, {.world = 4, .nodes = 1}, NULL},
    {"", NULL, NULL, NULL, {0}, {0}, "give -N, -n or --gpus-per-node"},
    {"", NULL, NULL, NULL, {.tasks = 1}, {0}, "give -N, -n"},
    {"", NULL, NULL, NULL, {.nodes = 4000000, .gpus_per_node = 8}, {0}, "32000000 ranks"},
    /* Inside an allocation */
    {"64", NULL, NULL, NULL, {.allocation_nodes = 2}, {.nodes = 8, .physical_nodes = 2, .devices_per_node = 1}, NULL},
    {"", NULL, NULL, NULL, {.allocation_nodes = 2, .tasks = 16}, {.world = 16, .physical_nodes = 2}, NULL},
    {"", NULL, NULL, NULL, {.allocation_nodes = 1, .earlier_world = 8192}, {.world = 8192, .nodes = 1024, .physical_nodes = 1}, NULL},
    /* A step of a job that Prism has shaped: 1,024 nodes of 8 */
#define JOB .allocation_nodes = 2, .earlier_world = 8192, .earlier_nodes = 1024, .earlier_tasks = 8192
#define LAUNCHED .allocation_nodes = 2, .earlier_world = 8192, .earlier_nodes = 1024, .earlier_tasks = 1024
    {"", NULL, NULL, "8", {JOB}, {.world = 8192, .nodes = 1024, .tasks = 8192, .gpus_per_node = 8, .physical_nodes = 2}, NULL},
    {"8192", NULL, NULL, "8", {JOB}, {.world = 8192, .nodes = 1024, .tasks = 8192}, NULL},
    {"64", NULL, NULL, "8", {JOB}, {.world = 64, .nodes = 8, .tasks = 64}, NULL},
    {"", NULL, NULL, "8", {JOB, .tasks = 1}, {.world = 1, .nodes = 1, .tasks = 1, .gpus_per_node = 1, .physical_nodes = 1}, NULL},
    {"8192", NULL, NULL, "8", {JOB, .tasks = 1, .nodes = 1}, {.world = 1, .tasks = 1}, NULL},
    {"", NULL, NULL, "8", {JOB, .tasks_per_node = 1}, {.world = 8192, .nodes = 1024, .tasks = 1024, .gpus_per_node = 8}, NULL},
    {"", NULL, NULL, "8", {JOB, .nodes = 1024, .tasks = 1024}, {.world = 8192, .nodes = 1024, .tasks = 1024}, NULL},
    {"", NULL, NULL, "8", {JOB, .tasks = 16}, {.world = 16, .nodes = 16, .tasks = 16, .gpus_per_node = 1}, NULL},
    {"", NULL, NULL, "8", {JOB, .nodes = 2, .tasks = 16}, {.world = 16, .nodes = 2, .tasks = 16, .gpus_per_node = 8}, NULL},
    {"", NULL, NULL, "8", {JOB, .nodes = 2, .tasks_per_node = 8}, {.world = 16, .nodes = 2}, NULL},
    {"", NULL, NULL, "8", {JOB, .nodes = 3, .tasks = 16}, {0}, "16 tasks do not spread evenly over 3 emulated nodes"},
    {"", NULL, NULL, "8", {LAUNCHED}, {.world = 8192, .nodes = 1024, .tasks = 1024}, NULL},
    {"", NULL, NULL, "8", {LAUNCHED, .tasks = 4}, {.world = 32, .nodes = 4, .tasks = 4}, NULL},
    {"", NULL, NULL, "8", {LAUNCHED, .tasks = 1}, {.world = 1, .tasks = 1}, NULL},
    /* Inside an allocation of one's own */
    {"64", NULL, NULL, NULL, {.allocation_nodes = 2, .forced_nodes = 3}, {0}, "the allocation has only 2 nodes"},
    /* Forced */
    {"64", NULL, NULL, NULL, {.forced_nodes = 4}, {.physical_nodes = 4, .devices_per_node = 1}, NULL},
    {"64", "0-7", NULL, NULL, {.forced_nodes = 4, .forced_devices_per_node = 3}, {.physical_nodes = 4, .devices_per_node = 3}, NULL},
    {"64", "0-3", NULL, NULL, {.forced_devices_per_node = 2}, {.physical_nodes = 4, .devices_per_node = 2}, NULL},
    {"64", "0-7", NULL, NULL, {.forced_nodes = 2, .forced_devices_per_node = 2}, {0}, "give 4 devices, sandbox ranks and assistants need 8"},
};

static void compare(size_t i, const char *what, uint32_t got, uint32_t want)
{
    if (want && got != want)
        fail_msg("case %zu: %s is %u instead of %u", i, what, got, want);
}

static void test_shapes(void **state)
{
    for (size_t i = 0; i < sizeof shape_cases / sizeof *shape_cases; i++) {
        const struct shape_case *c = &shape_cases[i];
        struct options o = {0};
        struct shape s = {0};
        struct prism_error err = {0};
        set_line(&o, OPTION_EMULATE, *c->emulate ? c->emulate : NULL);
        if (c->sandbox)
            set_line(&o, OPTION_SANDBOX, c->sandbox);
        if (c->assistants)
            set_line(&o, OPTION_ASSISTANTS, c->assistants);
        if (c->gpus_per_node)
            set_line(&o, OPTION_GPUS_PER_NODE, c->gpus_per_node);
        int rc = shape_plan(&c->request, &o, &s, &err);
        options_clear(&o);
        if (rc != (c->says ? -1 : 0) || (c->says && !strstr(err.text, c->says)))
            fail_msg("case %zu: %d '%s'", i, rc, err.text);
        compare(i, "world", s.world, c->want.world);
        compare(i, "nodes", s.nodes, c->want.nodes);
        compare(i, "tasks", s.tasks, c->want.tasks);
        compare(i, "gpus_per_node", s.gpus_per_node, c->want.gpus_per_node);
        compare(i, "devices", s.devices, c->want.devices);
        compare(i, "physical_nodes", s.physical_nodes, c->want.physical_nodes);
        compare(i, "devices_per_node", s.devices_per_node, c->want.devices_per_node);
        compare(i, "cpus_per_task", s.cpus_per_task, c->want.cpus_per_task);
    }
}

static void test_export(void **state)
{
    struct options o = {0};
    const struct shape s = {.world = 64, .nodes = 8, .gpus_per_node = 8, .tasks = 8, .asked_cpus_per_task = 3};
    char want[4096], folder[2048];
    clear_environment();
    set_line(&o, OPTION_EMULATE, NULL);
    set_line(&o, OPTION_SANDBOX, "0,3");
    set_line(&o, OPTION_NETWORK, "net.conf");
    unsetenv("PRISM_LOG");
    client_export(&o, &s, "/trace");
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(want, sizeof want,
             "PRISM_SANDBOX=0,3\nPRISM_NETWORK=%s/net.conf\nPRISM_TRACE=/trace\nPRISM_TRACE_DEFAULT=1\nPRISM_EMULATE=64\n"
             "PRISM_WORLD=64\nPRISM_LOGICAL_NODES=8\nPRISM_GPUS_PER_NODE=8\nPRISM_TASKS=8\nPRISM_CPUS_PER_TASK=3\n", folder);
    assert_string_equal(getenv(CLIENT_PACKED_VARIABLE), want);
    assert_string_equal(getenv("PRISM_EMULATE"), "64");
    assert_string_equal(getenv("PRISM_TRACE"), "/trace");
    client_export_off();
    assert_null(getenv(CLIENT_PACKED_VARIABLE));
    options_clear(&o);
    clear_environment();
}

static void test_real(void **state)
{
    setenv(CLIENT_REAL_VARIABLE, "SLURM_NNODES=1\nSLURM_NOT\nSLURM_JOB_NODELIST=node[0-1]\n", 1);
    setenv("SLURM_NNODES", "1024", 1);
    setenv("SLURM_NOT", "here", 1);
    char *value = client_real("SLURM_JOB_NODELIST");
    assert_string_equal(value, "node[0-1]");
    free(value);
    assert_null(client_real("SLURM_NOT"));
    assert_null(client_real("SLURM"));
    client_restore_real();
    assert_string_equal(getenv("SLURM_NNODES"), "1");
    assert_null(getenv("SLURM_NOT"));
    assert_string_equal(getenv("SLURM_JOB_NODELIST"), "node[0-1]");
    assert_null(getenv(CLIENT_REAL_VARIABLE));
    unsetenv("SLURM_NNODES");
    unsetenv("SLURM_JOB_NODELIST");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),          cmocka_unit_test(test_precedence),   cmocka_unit_test(test_bare_values),
        cmocka_unit_test(test_refused_values), cmocka_unit_test(test_cross_checks), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_export),         cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests_name("spank_options", tests, NULL, NULL);
}
