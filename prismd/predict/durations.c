#include "prismd/predict/durations.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <uthash.h>

#include "coll/types.h"
#include "common/file.h"

#define FILE_LIMIT  (256u << 20)
#define SECONDS_MAX 1e6 /* of an operation that is believed */

struct key {
    uint64_t parts; /* hash */
    uint32_t comm, nparts;
};

struct entry {
    struct key key;
    uint8_t op;     /* of the first part, for the reader of the file */
    uint64_t bytes; /* of all parts */
    int64_t samples[DURATIONS_SAMPLES];
    uint32_t n; /* added; may exceed what is kept */
    double median;
    UT_hash_handle hh;
};

struct durations {
    struct entry *by_key;  /* hash */
    struct entry **entries; /* owned; by number */
    uint32_t n, cap;
};

struct durations *durations_create(void)
{
    struct durations *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    return d;
}

void durations_destroy(struct durations *d)
{
    if (!d)
        return;
    HASH_CLEAR(hh, d->by_key);
    for (uint32_t i = 0; i < d->n; i++)
        free(d->entries[i]);
    free(d->entries);
    free(d);
}

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash(uint64_t h, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        h = (h ^ (value >> (8 * i) & 0xff)) * 0x100000001b3ull;
    return h;
}

static struct key key_of(uint32_t comm, const struct graph_part *parts, uint32_t nparts)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < nparts; i++) {
        h = hash(h, (uint64_t)parts[i].op << 32 | parts[i].datatype);
        h = hash(h, (uint64_t)(uint32_t)parts[i].peer);
        h = hash(h, parts[i].count);
    }
    return (struct key){h, comm, nparts};
}

static uint32_t kept(const struct entry *e)
{
    return e->n < DURATIONS_SAMPLES ? e->n : DURATIONS_SAMPLES;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static double median(const struct entry *e)
{
    int64_t sorted[DURATIONS_SAMPLES];
    uint32_t n = kept(e);
    memcpy(sorted, e->samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    return ((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2;
}

static struct entry *find(const struct durations *d, struct key key)
{
    struct entry *e;
    HASH_FIND(hh, d->by_key, &key, sizeof key, e);
    return e;
}

static struct entry *add(struct durations *d, struct key key, uint8_t op, uint64_t bytes, uint32_t *number)
{
    struct entry *e = calloc(1, sizeof *e);
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 64;
        d->entries = realloc(d->entries, d->cap * sizeof *d->entries);
    }
    if (!e || !d->entries)
        abort();
    e->key = key;
    e->op = op;
    e->bytes = bytes;
    HASH_ADD(hh, d->by_key, key, sizeof e->key, e);
    *number = d->n;
    return d->entries[d->n++] = e;
}

static uint32_t number_of(const struct durations *d, const struct entry *e)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->entries[i] == e)
            return i;
    return DURATIONS_NONE;
}

uint32_t durations_entry(struct durations *d, uint32_t comm, const struct graph_part *parts, uint32_t nparts)
{
    struct key key = key_of(comm, parts, nparts);
    struct entry *e = find(d, key);
    uint32_t number = 0;
    uint64_t bytes = 0;
    if (e)
        return number_of(d, e);
    for (uint32_t i = 0; i < nparts; i++)
        bytes += parts[i].count * coll_datatype_size(parts[i].datatype);
    add(d, key, nparts ? parts[0].op : 0, bytes, &number);
    return number;
}

void durations_add(struct durations *d, uint32_t entry, int64_t ns)
{
    if (entry >= d->n || ns < 0 || (double)ns >= SECONDS_MAX * 1e9)
        return;
    struct entry *e = d->entries[entry];
    e->samples[e->n++ % DURATIONS_SAMPLES] = ns;
    e->median = median(e);
}

double durations_find(const struct durations *d, uint32_t comm, const struct graph_part *parts, uint32_t nparts)
{
    const struct entry *e = d && d->n ? find(d, key_of(comm, parts, nparts)) : NULL; /* mostly nothing was measured */
    return e && e->n ? e->median : -1;
}

uint32_t durations_entries(const struct durations *d)
{
    return d->n;
}

uint32_t durations_count(const struct durations *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; d && i < d->n; i++)
        n += d->entries[i]->n > 0;
    return n;
}

/* --- between nodes --- */

void durations_put(const struct durations *d, struct bytes *out)
{
    bytes_put_u32(out, d ? d->n : 0);
    for (uint32_t i = 0; d && i < d->n; i++) {
        const struct entry *e = d->entries[i];
        bytes_put(out, &e->key, sizeof e->key);
        bytes_put_u8(out, e->op);
        bytes_put_u64(out, e->bytes);
        bytes_put_u32(out, kept(e));
        bytes_put(out, e->samples, kept(e) * sizeof *e->samples);
    }
}

int durations_take(struct durations *d, struct bytes_reader *in)
{
    for (uint32_t n = bytes_get_u32(in); n && !in->bad; n--) {
        struct key key;
        const void *raw = bytes_get(in, sizeof key);
        uint8_t op = bytes_get_u8(in);
        uint64_t bytes = bytes_get_u64(in);
        uint32_t nsamples = bytes_get_u32(in), number;
        const char *samples = nsamples <= DURATIONS_SAMPLES ? bytes_get(in, nsamples * sizeof(int64_t)) : NULL;
        if (!raw || !samples)
            return -1;
        memcpy(&key, raw, sizeof key);
        struct entry *e = find(d, key);
        number = e ? number_of(d, e) : (add(d, key, op, bytes, &number), d->n - 1);
        for (uint32_t i = 0; i < nsamples; i++) {
            int64_t ns;
            memcpy(&ns, samples + i * sizeof ns, sizeof ns);
            durations_add(d, number, ns);
        }
    }
    return in->bad ? -1 : 0;
}

/* --- on disk --- */

static json_t *entry_json(const struct entry *e)
{
    char signature[20];
    json_t *samples = json_array();
    snprintf(signature, sizeof signature, "%016" PRIx64, e->key.parts);
    for (uint32_t i = 0; i < kept(e); i++)
        json_array_append_new(samples, json_real((double)e->samples[i] / 1e9));
    return json_pack("{s:I, s:I, s:s, s:s, s:I, s:f, s:o}", "communicator", (json_int_t)e->key.comm, "operations",
                     (json_int_t)e->key.nparts, "signature", signature, "first", prism_op_name(e->op), "bytes",
                     (json_int_t)e->bytes, "seconds", e->median / 1e9, "samples", samples);
}

int durations_save(const struct durations *d, const char *path, struct prism_error *err)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < d->n; i++)
        if (d->entries[i]->n)
            json_array_append_new(list, entry_json(d->entries[i]));
    json_t *root = json_pack("{s:s, s:i, s:o}", "format", "prism-durations", "version", 1, "durations", list);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot write %s: out of memory", path);
    int rc = file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return rc;
}

static int take_entry(struct durations *d, json_t *item)
{
    json_int_t comm, nparts, bytes;
    const char *signature, *first;
    json_t *samples;
    uint32_t number;
    struct key key;
    if (json_unpack(item, "{s:I, s:I, s:s, s:s, s:I, s:o}", "communicator", &comm, "operations", &nparts, "signature",
                    &signature, "first", &first, "bytes", &bytes, "samples", &samples) ||
        sscanf(signature, "%16" SCNx64, &key.parts) != 1 || !json_is_array(samples) || comm < 0 || comm > UINT32_MAX || nparts < 0 ||
        nparts > UINT32_MAX || bytes < 0)
        return -1;
    key.comm = (uint32_t)comm;
    key.nparts = (uint32_t)nparts;
    int op = PRISM_OP_END - 1;
    while (op > 0 && strcmp(prism_op_name(op), first) != 0)
        op--;
    if (find(d, key))
        return -1;
    add(d, key, (uint8_t)op, (uint64_t)bytes, &number);
    for (size_t i = 0; i < json_array_size(samples); i++) {
        double seconds = json_is_number(json_array_get(samples, i)) ? json_number_value(json_array_get(samples, i)) : -1;
        if (!(seconds >= 0 && seconds < SECONDS_MAX))
            return -1;
        durations_add(d, number, (int64_t)(seconds * 1e9 + 0.5));
    }
    return 0;
}

struct durations *durations_load(const char *path, struct prism_error *err)
{
    struct durations *d = durations_create();
    struct bytes b = {0};
    json_t *list, *root = NULL;
    const char *format;
    int version, rc = 0;
    if (access(path, F_OK))
        return d;
    if (!(rc = file_read(path, FILE_LIMIT, &b, err)) && (!(root = json_loadb((char *)b.data, b.len, 0, NULL)) ||
        json_unpack(root, "{s:s, s:i, s:o}", "format", &format, "version", &version, "durations", &list) ||
        strcmp(format, "prism-durations") != 0 || version != 1 || !json_is_array(list)))
        rc = -1;
    for (size_t i = 0; !rc && i < json_array_size(list); i++)
        rc = take_entry(d, json_array_get(list, i));
    if (root)
        json_decref(root);
    bytes_free(&b);
    if (!rc)
        return d;
    durations_destroy(d);
    prism_error_set(err, PRISM_EXIT_TRACE, "%s is damaged; calibrate again (--prism-phase=calibrate)", path);
    return NULL;
}
