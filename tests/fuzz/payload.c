/* payload.c - a payload store: index and data file, every payload read. The input: u16 length of the index without its checksum, which
 * is made right, the index, the data file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "trace/payload_format.h"

const uint32_t fuzz_unit_runs = 20000;

#define CAP (1u << 20)

static void put_file(const char *dir, const char *name, const void *data, size_t len)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    close(fd);
}

static char dir[200];

static void remove_dir(void)
{
    char path[300];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/payload-0.%s", dir, i ? "dat" : "idx");
        unlink(path);
    }
    rmdir(dir);
}

static void make_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/prism-fuzz-XXXXXX", tmp && strlen(tmp) < 150 ? tmp : "/tmp");
    if (!mkdtemp(dir) || atexit(remove_dir))
        abort();
}

static void read_all(const struct payload_index *index)
{
    static uint8_t *out;
    struct payload_reader *r = payload_reader_open(dir, 1, NULL);
    if (!out && !(out = malloc(CAP)))
        abort();
    if (!r)
        return;
    for (uint32_t i = 0; i < index->nentries && i < 64; i++) {
        int64_t size = payload_reader_size(r, index->entries[i].key);
        int64_t got = payload_reader_get(r, index->entries[i].key, out, CAP, NULL);
        if (size < 0 || (got >= 0 && got != size) || got > (int64_t)CAP)
            abort();
    }
    payload_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes sealed = {0};
    struct payload_index index;
    if (len < 2)
        return 0;
    size_t n = data[0] | (size_t)data[1] << 8;
    if (n > len - 2)
        return 0;
    if (!*dir)
        make_dir();
    bytes_put(&sealed, data + 2, n);
    bytes_put_u64(&sealed, payload_index_checksum(sealed.data, sealed.len));
    if (!payload_index_parse("fuzz", sealed.data, sealed.len, &index, NULL)) {
        put_file(dir, "payload-0.idx", sealed.data, sealed.len);
        put_file(dir, "payload-0.dat", data + 2 + n, len - 2 - n);
        read_all(&index);
        payload_index_clear(&index);
    }
    bytes_free(&sealed);
    return 0;
}
