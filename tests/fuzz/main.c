/* main.c - a fuzz target without a fuzzer: fuzz_TARGET [FILE|FOLDER...]
 *
 * Runs each file. Without arguments, as a unit test (TAP): every file of tests/fuzz/corpus/TARGET below $PRISM_SOURCE, then
 * fuzz_unit_runs inputs made of these by changes of bytes, the same ones every time.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (1u << 20)
#define GROWN_MAX 8192u /* inputs are not made longer than this */

static struct bytes *corpus;
static uint32_t ncorpus;

/* A copy of exactly its size, so that a byte read too far is noticed. */
static void run(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    memcpy(copy, data, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static int read_into_corpus(const char *path)
{
    struct prism_error err = {0};
    struct bytes data = {0};
    if (file_read(path, INPUT_MAX, &data, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    corpus = realloc(corpus, (ncorpus + 1) * sizeof *corpus);
    if (!corpus)
        abort();
    bytes_put_u8(&data, 0); /* never without memory */
    data.len--;
    corpus[ncorpus++] = data;
    return 0;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int read_path(const char *path)
{
    struct dirent **list;
    struct stat st;
    char name[4096];
    int rc = 0;
    if (stat(path, &st)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return read_into_corpus(path);
    int n = scandir(path, &list, visible, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s/%s", path, list[i]->d_name);
        rc |= read_into_corpus(name);
        free(list[i]);
    }
    free(n < 0 ? NULL : list);
    return n < 0 ? -1 : rc;
}

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* One change: bytes cut out, one byte repeated, the input behind itself, a bit turned, a byte or a word replaced. */
static void change(uint8_t *data, size_t *len, uint32_t *state)
{
    static const char bytes[] = "0123456789,-:+=[]()|@\n \0\xff" "9%/x{}\"\\\x01\x80\x7f";
    static const uint32_t words[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000, 255, 4096};
    uint32_t at = next(state) % (uint32_t)*len, what = next(state) % 6, many = 1 + next(state) % 8;
    uint8_t byte = (uint8_t)bytes[next(state) % (sizeof bytes - 1)];
    if (what == 0 && *len > many + 1 && at + many < *len) {
        memmove(data + at, data + at + many, *len - at - many);
        *len -= many;
    } else if (what == 1 && *len + many < GROWN_MAX) {
        memmove(data + at + many, data + at, *len - at);
        memset(data + at, byte, many);
        *len += many;
    } else if (what == 2 && *len * 2 < GROWN_MAX) {
        memcpy(data + *len, data, *len);
        *len *= 2;
    } else if (what == 3) {
        data[at] ^= (uint8_t)(1u << many % 8);
    } else if (what == 4 && at + 4 <= *len) {
        memcpy(data + at, &words[next(state) % 8], 4);
    } else {
        data[at] = byte;
    }
}

static void run_changed(void)
{
    uint32_t state = 2463534242u;
    uint8_t *data = malloc(INPUT_MAX + GROWN_MAX);
    if (!data)
        abort();
    for (uint32_t i = 0; i < fuzz_unit_runs; i++) {
        const struct bytes *from = &corpus[next(&state) % ncorpus];
        size_t len = from->len;
        memcpy(data, from->data, len);
        for (uint32_t k = next(&state) % 8; k && len; k--)
            change(data, &len, &state);
        run(data, len);
    }
    free(data);
}

static void run_corpus(void)
{
    for (uint32_t i = 0; i < ncorpus; i++)
        run(corpus[i].data, corpus[i].len);
}

static int unit(const char *program)
{
    const char *source = getenv("PRISM_SOURCE"), *target = strrchr(program, '/');
    char path[4096];
    target = target ? target + 1 : program;
    target = strncmp(target, "fuzz_", 5) ? target : target + 5;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", source ? source : ".", target);
    printf("1..2\n");
    fflush(stdout);
    if (read_path(path) || !ncorpus) {
        printf("not ok 1 - the corpus %s cannot be read\n", path);
        return 1;
    }
    run_corpus();
    printf("ok 1 - %u files of the corpus\n", ncorpus);
    fflush(stdout);
    run_changed();
    printf("ok 2 - %u inputs made of them\n", fuzz_unit_runs);
    return 0;
}

int main(int argc, char **argv)
{
    int rc = 0;
    if (argc == 1) {
        rc = unit(argv[0]);
    } else {
        for (int i = 1; i < argc; i++)
            rc |= read_path(argv[i]);
        run_corpus();
    }
    for (uint32_t i = 0; i < ncorpus; i++)
        bytes_free(&corpus[i]);
    free(corpus);
    return rc ? 1 : 0;
}
