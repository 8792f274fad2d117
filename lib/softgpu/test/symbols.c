/* symbols.c - the lists of symbols in docs/softgpu.md against the libraries. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST 1024

struct symbol {
    char name[96];
    bool per_thread, seen;
};

struct list {
    struct symbol items[MOST];
    int count;
};

static struct symbol *find(struct list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (!strcmp(list->items[i].name, name))
            return &list->items[i];
    return NULL;
}

static struct symbol *add(struct list *list, const char *name)
{
    struct symbol *symbol = find(list, name);
    if (symbol)
        return symbol;
    assert_true(list->count < MOST);
    symbol = &list->items[list->count++];
    memset(symbol, 0, sizeof(*symbol));
    snprintf(symbol->name, sizeof(symbol->name), "%s", name);
    return symbol;
}

/* The second column of the table under "### <library>": `name` or `name`+. */
static void read_document(const char *library, struct list *list)
{
    char path[4096], line[16384], heading[64];
    const char *source = getenv("PRISM_SOURCE");
    bool inside = false;
    snprintf(path, sizeof(path), "%s/docs/softgpu.md", source ? source : ".");
    snprintf(heading, sizeof(heading), "### %s\n", library);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s: not there; run from the source folder or set PRISM_SOURCE", path);
    while (fgets(line, sizeof(line), f)) {
        if (line[0] == '#')
            inside = !strcmp(line, heading);
        if (!inside || line[0] != '|')
            continue;
        char *column = strchr(line + 1, '|'), *end = column ? strchr(column + 1, '|') : NULL;
        for (char *p = column; p && end && (p = strchr(p, '`')) && p < end; p++) {
            char *close = strchr(p + 1, '`');
            *close = '\0';
            add(list, p + 1)->per_thread = close[1] == '+';
            p = close;
        }
    }
    fclose(f);
}

static void read_library(const char *library, struct list *list)
{
    char command[4096], line[512], name[256];
    const char *build = getenv("PRISM_BUILD");
    char folder[3000];
    if (build) {
        snprintf(folder, sizeof(folder), "%s/lib/softgpu", build);
    } else { /* beside test/, where this program lies */
        ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 32);
        assert_true(n > 0);
        folder[n] = '\0';
        strcpy(strrchr(folder, '/'), "/../lib/softgpu");
    }
    snprintf(command, sizeof(command), "nm -D --defined-only '%s/%s'", folder, library);
    FILE *f = popen(command, "r");
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %*s %255s", name) != 1 || name[0] == '_')
            continue;
        size_t n = strlen(name);
        bool variant = n > 5 && (!strcmp(name + n - 5, "_ptsz") || !strcmp(name + n - 5, "_ptds"));
        if (variant)
            name[n - 5] = '\0';
        add(list, name)->per_thread |= variant;
    }
    assert_int_equal(pclose(f), 0);
}

static void compare(const char *library)
{
    static struct list documented, exported;
    int wrong = 0;
    documented.count = exported.count = 0;
    read_document(library, &documented);
    read_library(library, &exported);
    assert_true(exported.count > 80);
    for (int i = 0; i < exported.count; i++) {
        struct symbol *symbol = &exported.items[i], *said = find(&documented, symbol->name);
        if (said && said->per_thread == symbol->per_thread)
            continue;
        print_error("%s: %s%s is exported, docs/softgpu.md says %s\n", library, symbol->name,
                    symbol->per_thread ? " (with a per-thread variant)" : "", said ? "otherwise" : "nothing");
        wrong++;
    }
    for (int i = 0; i < documented.count; i++)
        if (!find(&exported, documented.items[i].name) && ++wrong)
            print_error("%s: docs/softgpu.md lists %s, which is not exported\n", library, documented.items[i].name);
    assert_int_equal(wrong, 0);
}

static void test_libcuda(void **state)
{
    compare("libcuda.so.1");
}

static void test_libcudart(void **state)
{
    compare("libcudart.so.13");
}

/* The software GPU is what Prism is measured against, so it may share no code with what Prism computes with. */
static void check_map(const char *library, bool required)
{
    char path[4096], line[8192];
    const char *const fields[] = {"lib/coll", "lib/graph", "libcoll", "libgraph"};
    const char *build = getenv("PRISM_BUILD");
    if (!build) {
        ssize_t n = readlink("/proc/self/exe", line, sizeof(line) - 1);
        assert_true(n > 0);
        line[n] = '\0';
        *strrchr(line, '/') = '\0';
        snprintf(path, sizeof(path), "%.3000s/../obj/lib/softgpu/%s.map", line, library);
    } else {
        snprintf(path, sizeof(path), "%.3000s/obj/lib/softgpu/%s.map", build, library);
    }
    FILE *f = fopen(path, "r");
    if (!f && !required)
        return;
    if (!f)
        fail_msg("%s: no link map", path);
    while (fgets(line, sizeof(line), f))
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
            if (strstr(line, fields[i]))
                fail_msg("%s is linked with code of Prism's arithmetic: %s", library, line);
    fclose(f);
}

static void test_no_shared_code(void **state)
{
    check_map("libcuda.so.1", true);
    check_map("libcudart.so.13", true);
    check_map("libnccl.so.2", false); /* if it was built */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_libcuda), cmocka_unit_test(test_libcudart),
                                       cmocka_unit_test(test_no_shared_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
