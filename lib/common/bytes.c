#include "common/bytes.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define STRING_MAX (1u << 20)

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

void bytes_clear(struct bytes *b)
{
    b->len = 0;
}

void *bytes_reserve(struct bytes *b, size_t n)
{
    if (n > b->cap - b->len || !b->data) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap - b->len < n)
            cap *= 2;
        b->data = realloc(b->data, cap);
        if (!b->data)
            abort();
        b->cap = cap;
    }
    return b->data + b->len;
}

void bytes_put(struct bytes *b, const void *data, size_t n)
{
    if (!n)
        return;
    memcpy(bytes_reserve(b, n), data, n);
    b->len += n;
}

void bytes_put_u8(struct bytes *b, uint8_t v)
{
    bytes_put(b, &v, 1);
}

void bytes_put_u16(struct bytes *b, uint16_t v)
{
    v = htole16(v);
    bytes_put(b, &v, sizeof v);
}

void bytes_put_u32(struct bytes *b, uint32_t v)
{
    v = htole32(v);
    bytes_put(b, &v, sizeof v);
}

void bytes_put_u64(struct bytes *b, uint64_t v)
{
    v = htole64(v);
    bytes_put(b, &v, sizeof v);
}

void bytes_put_f64(struct bytes *b, double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    bytes_put_u64(b, u);
}

void bytes_put_string(struct bytes *b, const char *s)
{
    size_t n = strlen(s);
    bytes_put_u32(b, (uint32_t)n);
    bytes_put(b, s, n);
}

struct bytes_reader bytes_reader_init(const void *data, size_t len)
{
    return (struct bytes_reader){.data = data, .len = len};
}

const void *bytes_get(struct bytes_reader *r, size_t n)
{
    if (r->bad || n > r->len - r->pos) {
        r->bad = true;
        return NULL;
    }
    const void *p = r->data + r->pos;
    r->pos += n;
    return p;
}

uint8_t bytes_get_u8(struct bytes_reader *r)
{
    const uint8_t *p = bytes_get(r, 1);
    return p ? *p : 0;
}

uint16_t bytes_get_u16(struct bytes_reader *r)
{
    uint16_t v = 0;
    const void *p = bytes_get(r, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return le16toh(v);
}

uint32_t bytes_get_u32(struct bytes_reader *r)
{
    uint32_t v = 0;
    const void *p = bytes_get(r, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return le32toh(v);
}

uint64_t bytes_get_u64(struct bytes_reader *r)
{
    uint64_t v = 0;
    const void *p = bytes_get(r, sizeof v);
    if (p)
        memcpy(&v, p, sizeof v);
    return le64toh(v);
}

double bytes_get_f64(struct bytes_reader *r)
{
    uint64_t u = bytes_get_u64(r);
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

char *bytes_get_string(struct bytes_reader *r)
{
    uint32_t n = bytes_get_u32(r);
    if (n > STRING_MAX)
        r->bad = true;
    const char *p = bytes_get(r, n);
    if (!p || memchr(p, 0, n)) { /* a text that is cut short would stand for another */
        r->bad = true;
        return NULL;
    }
    char *s = malloc((size_t)n + 1);
    if (!s)
        abort();
    memcpy(s, p, n);
    s[n] = 0;
    return s;
}
