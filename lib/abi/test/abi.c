/* abi.c - the headers of lib/abi against the installed ones, and against the sonames and symbols of the real libraries.
 *
 * Skips what is not installed. The programs abi_facts and abi_facts_real lie beside this one.
 */
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

#include <nccl.h>

static char folder[3000];

static FILE *run(const char *format, ...)
{
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    return popen(command, "r");
}

static void find_folder(const char *program)
{
    ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    assert_true(n > 0);
    folder[n] = '\0';
    *strrchr(folder, '/') = '\0';
}

/* NAME prints ours, NAME_real theirs. */
static void expect_agreement(const char *name, int least)
{
    char ours[512], theirs[512];
    int lines = 0, different = 0;
    char path[3100];
    snprintf(path, sizeof(path), "%s/%s_real", folder, name);
    if (access(path, X_OK) != 0)
        skip(); /* built only where /usr/local/cuda/include is */
    FILE *a = run("%s/%s", folder, name), *b = run("%s", path);
    assert_non_null(a);
    assert_non_null(b);
    while (fgets(theirs, sizeof(theirs), b)) {
        assert_non_null(fgets(ours, sizeof(ours), a));
        lines++;
        if (strcmp(ours, theirs) != 0 && ++different)
            print_error("ours: %sreal: %s", ours, theirs);
    }
    while (fgets(ours, sizeof(ours), a)) /* NCCL's lines, where only CUDA's headers are installed */
        ;
    assert_int_equal(pclose(a), 0);
    assert_int_equal(pclose(b), 0);
    assert_true(lines > least);
    assert_int_equal(different, 0);
}

static void test_facts_agree(void **state)
{
    expect_agreement("abi_facts", 1000);
}

static void test_nvtx_agrees(void **state)
{
    expect_agreement("abi_nvtx", 30);
}

static void test_signatures_match(void **state)
{
    char line[512];
    int wrong = 0;
    FILE *f = run("%s/abi_facts", folder);
    while (fgets(line, sizeof(line), f))
        if (!strncmp(line, "signature ", 10) && !strstr(line, " ok"))
            wrong++;
    assert_int_equal(pclose(f), 0);
    assert_int_equal(wrong, 0);
}

static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/cuda/lib64/stubs",
                                      "/usr/local/cuda/lib/stubs", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib"};

static bool find_library(const char *name, char *path, size_t size)
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, size, "%s/%s", folders[i], name);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static void check_soname(const char *file, const char *soname)
{
    char path[512], line[512];
    bool found = false;
    if (!find_library(file, path, sizeof(path)))
        return;
    FILE *f = run("readelf -d %s", path);
    while (fgets(line, sizeof(line), f))
        if (strstr(line, "SONAME"))
            found = strstr(line, soname) != NULL;
    pclose(f);
    if (!found)
        print_error("%s: its soname is not %s\n", path, soname);
    assert_true(found);
}

static void test_sonames(void **state)
{
    check_soname("libcuda.so", "[libcuda.so.1]");
    check_soname("libcudart.so", "[libcudart.so.13]");
    check_soname("libnccl.so.2", "[libnccl.so.2]");
}

static const char *const declared[] = {
#define NAME(result, name, parameters, arguments) "nccl" #name, "pnccl" #name,
    PRISM_NCCL_FUNCTIONS(NAME)};

static bool is_declared(const char *symbol)
{
    for (size_t i = 0; i < sizeof(declared) / sizeof(declared[0]); i++)
        if (!strcmp(declared[i], symbol))
            return true;
    return false;
}

/* Exported, but of nccl_device.h (device-side interface) or of no header; not part of nccl.h. */
static bool is_elsewhere(const char *symbol)
{
    static const char *const names[] = {"ncclDevComm", "ncclGinBarrier", "ncclLLA2A", "ncclLsaBarrier", "ncclTeam",
                                        "ncclResetDebugInitInternal"};
    symbol += symbol[0] == 'p';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strncmp(symbol, names[i], strlen(names[i])))
            return true;
    return false;
}

static void test_real_nccl_symbols_declared(void **state)
{
    char path[512], line[512], symbol[256];
    int seen = 0, missing = 0;
    if (!find_library("libnccl.so.2", path, sizeof(path)))
        skip();
    FILE *f = run("nm -D --defined-only %s", path);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %*s %255s", symbol) != 1)
            continue;
        symbol[strcspn(symbol, "@")] = '\0';
        if (strncmp(symbol, "nccl", 4) != 0 && strncmp(symbol, "pnccl", 5) != 0)
            continue;
        seen++;
        if (!is_declared(symbol) && !is_elsewhere(symbol) && ++missing)
            print_error("%s exports %s, which nccl.h of lib/abi lacks\n", path, symbol);
    }
    pclose(f);
    assert_true(seen >= 90);
    assert_int_equal(missing, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_agree), cmocka_unit_test(test_nvtx_agrees),
        cmocka_unit_test(test_signatures_match),
        cmocka_unit_test(test_sonames),
        cmocka_unit_test(test_real_nccl_symbols_declared),
    };
    find_folder(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
