/* names.c - names of logical nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/names.h"

static void bases(void **state)
{
    static const char *const cases[][2] = {
        {"node[0-3]", "node-prism"},        {"node3", "node-prism"},         {"gpu-a[017-018,020]", "gpu-a-prism"},
        {"gpu-17,other[1-2]", "gpu-prism"}, {"n1.cluster.org", "n-prism"},   {"42", "prism"},
        {"", "prism"},                      {"rack2-node7", "rack2-node-prism"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char base[NAMES_BASE_MAX];
        names_base(cases[i][0], base);
        assert_string_equal(base, cases[i][1]);
    }
    char longest[300], base[NAMES_BASE_MAX];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    names_base(longest, base);
    assert_true(strlen(base) < NAMES_BASE_MAX && strstr(base, "-prism"));
}

static void nodes_and_lists(void **state)
{
    char name[NAMES_NODE_MAX], list[NAMES_LIST_MAX];
    (void)state;
    names_node("n-prism", 1024, 7, name);
    assert_string_equal(name, "n-prism0007");
    names_node("n-prism", 10, 9, name);
    assert_string_equal(name, "n-prism9");
    names_list("n-prism", 1024, 1024, list);
    assert_string_equal(list, "n-prism[0000-1023]");
    names_list("n-prism", 1024, 2, list);
    assert_string_equal(list, "n-prism[0000-0001]");
    names_list("n-prism", 1024, 1, list);
    assert_string_equal(list, "n-prism0000");
    names_list("n-prism", 1, 1, list);
    assert_string_equal(list, "n-prism0");
}

static void finding(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1024; i++) {
        char name[NAMES_NODE_MAX];
        names_node("n-prism", 1024, i, name);
        assert_int_equal(names_find("n-prism", 1024, name), i);
    }
    assert_int_equal(names_find("n-prism", 1024, "n-prism0003.cluster"), 3);
    static const char *const others[] = {"n-prism3", "n-prism1024", "n-prism", "n-prism000x", "n-prism00003", "n0003", "", "localhost"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(names_find("n-prism", 1024, others[i]), UINT32_MAX);
}

static void tasks(void **state)
{
    char text[32];
    (void)state;
    names_per_node(8, 1024, text);
    assert_string_equal(text, "8(x1024)");
    names_per_node(8, 1, text);
    assert_string_equal(text, "8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bases), cmocka_unit_test(nodes_and_lists), cmocka_unit_test(finding),
                                       cmocka_unit_test(tasks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
