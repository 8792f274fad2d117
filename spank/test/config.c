/* config.c - [options] of prism.conf, and who beats whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

static int parse(struct options *o, const char *text, struct prism_error *err) { return config_parse(o, "prism.conf", text, strlen(text), err); }

static void every_option(void **state)
{
    static const char *const values[OPTION_COUNT] = {
        [OPTION_SANDBOX] = "0,3",     [OPTION_ASSISTANTS] = "2",  [OPTION_PHASE] = "capture",  [OPTION_TRACE] = "/t",
        [OPTION_GPUS_PER_NODE] = "4", [OPTION_LAYOUT] = "tp:8",   [OPTION_FOLD] = "tp",        [OPTION_SLICES] = "all",
        [OPTION_ITERATIONS] = "5",    [OPTION_PAYLOAD] = "none",  [OPTION_NETWORK] = "/n",     [OPTION_SCRATCH] = "1",
        [OPTION_ON_DIVERGENCE] = "warn"};
    struct options o = {0};
    struct prism_error err = {0};
    char text[2048] = "# site defaults\n[policy]\nanything goes\n[options]\n";
    (void)state;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (values[i])
            snprintf(text + strlen(text), sizeof text - strlen(text), "  %s = %s # why\n", option_table[i].name + 6, values[i]);
        else
            assert_int_equal(i, OPTION_EMULATE); /* a new option belongs here */
    assert_int_equal(parse(&o, text, &err), 0);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (values[i])
            assert_string_equal(o.text[i], values[i]);
    options_clear(&o);
}

static void precedence(void **state)
{
    struct options o = {0};
    struct prism_error err = {0};
    (void)state;
    for (int i = 0; i < OPTION_COUNT; i++)
        unsetenv(option_table[i].variable);
    setenv("PRISM_PAYLOAD", "none", 1);
    assert_int_equal(options_set(&o, OPTION_PHASE, "capture", OPTION_FROM_COMMAND_LINE, &err), 0);
    assert_int_equal(options_read_environment(&o, &err), 0);
    assert_int_equal(parse(&o, "[options]\nphase = emulate\npayload = \"control\"\nslices=3\n", &err), 0);
    assert_string_equal(o.text[OPTION_PHASE], "capture");
    assert_string_equal(o.text[OPTION_PAYLOAD], "none");
    assert_string_equal(o.text[OPTION_SLICES], "3");
    /* the order of reading does not matter */
    assert_int_equal(options_set(&o, OPTION_SLICES, "4", OPTION_FROM_ENVIRONMENT, &err), 0);
    assert_string_equal(o.text[OPTION_SLICES], "4");
    options_clear(&o);
    unsetenv("PRISM_PAYLOAD");
}

static void errors(void **state)
{
    static const char *const cases[][2] = {
        {"[options]\nsandbox = x\n", "prism.conf, line 2: sandbox=x: 'x' is neither"},
        {"\n[options]\n\ncolour = blue\n", "line 4: 'colour' is no option"},
        {"[options]\nemulate = 64\n", "emulate is asked for by a job"},
        {"[options]\nslices = 1\nslices = 2\n", "line 3: slices stands twice"},
        {"[options]\nslices\n", "'name = value' is expected"},
        {"[options]\nslices =\n", "line 2: slices"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options o = {0};
        struct prism_error err = {0};
        assert_int_equal(parse(&o, cases[i][0], &err), -1);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("case %zu: %s", i, err.text);
        options_clear(&o);
    }
}

static void files(void **state)
{
    struct options o = {0};
    struct prism_error err = {0};
    char path[] = "/tmp/prism-conf.XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, "[options]\nslices=7", 18), 18);
    close(fd);
    unsetenv("PRISM_CONFIG");
    assert_int_equal(config_read(&o, path, &err), 0);
    assert_string_equal(o.text[OPTION_SLICES], "7");
    options_clear(&o);
    setenv("PRISM_CONFIG", "/no/such/file", 1);
    assert_int_equal(config_read(&o, path, &err), -1);
    assert_non_null(strstr(err.text, "/no/such/file"));
    unsetenv("PRISM_CONFIG");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_option), cmocka_unit_test(precedence), cmocka_unit_test(errors),
                                       cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
