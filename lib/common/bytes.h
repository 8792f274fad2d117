/* bytes.h - growing byte buffers and bounds-checked reading; little-endian, the form of everything we write to disk or wire.
 *
 * Writers never fail softly: out of memory ends the process through abort() (a daemon without memory cannot go on).
 * Readers never read past the end: after the first failure `bad` stays set and every get returns zeroes, so a parser
 * checks once at the end.
 */
#ifndef PRISM_COMMON_BYTES_H
#define PRISM_COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data; /* owned; NULL when empty */
    size_t len, cap;
};

void bytes_free(struct bytes *b);
void bytes_clear(struct bytes *b); /* len = 0, memory kept */
void *bytes_reserve(struct bytes *b, size_t n); /* room for n more at data+len; len unchanged */
void bytes_put(struct bytes *b, const void *data, size_t n);
void bytes_put_u8(struct bytes *b, uint8_t v);
void bytes_put_u16(struct bytes *b, uint16_t v);
void bytes_put_u32(struct bytes *b, uint32_t v);
void bytes_put_u64(struct bytes *b, uint64_t v);
void bytes_put_f64(struct bytes *b, double v);
void bytes_put_string(struct bytes *b, const char *s); /* u32 length, bytes */

struct bytes_reader {
    const uint8_t *data; /* borrowed */
    size_t len, pos;
    bool bad;
};

struct bytes_reader bytes_reader_init(const void *data, size_t len);
const void *bytes_get(struct bytes_reader *r, size_t n); /* NULL when short */
uint8_t bytes_get_u8(struct bytes_reader *r);
uint16_t bytes_get_u16(struct bytes_reader *r);
uint32_t bytes_get_u32(struct bytes_reader *r);
uint64_t bytes_get_u64(struct bytes_reader *r);
double bytes_get_f64(struct bytes_reader *r);
char *bytes_get_string(struct bytes_reader *r); /* malloc'ed, NUL added; NULL when short, over 1 MiB or with a NUL in it */

#endif
