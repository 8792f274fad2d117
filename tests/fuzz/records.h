/* records.h - how libFuzzer changes inputs that are records of u8 what, u16 length, bytes: they stay records, so that it finds
 * its way through sequences of them. FUZZ_HEAD bytes lie in front. Once a program; nothing for other engines. */
#ifndef PRISM_TESTS_FUZZ_RECORDS_H
#define PRISM_TESTS_FUZZ_RECORDS_H

#if defined FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION && !defined __AFL_COMPILER

#include <stdint.h>
#include <string.h>

#define RECORDS     512u
#define RECORD_HEAD 3u
#define RECORD_GROW 64u /* bytes by which a change makes one longer */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

static size_t record_size(const uint8_t *at)
{
    return RECORD_HEAD + at[1] + ((size_t)at[2] << 8);
}

/* Where whole ones begin; their number. */
static uint32_t find_records(const uint8_t *data, size_t size, size_t starts[RECORDS])
{
    uint32_t n = 0;
    for (size_t at = FUZZ_HEAD; n < RECORDS && at + RECORD_HEAD <= size && at + record_size(data + at) <= size; at += record_size(data + at))
        starts[n++] = at;
    return n;
}

/* The bytes of one record by libFuzzer's own changes; the size of the input then. */
static size_t change_record(uint8_t *data, size_t size, size_t max, size_t at)
{
    static uint8_t body[UINT16_MAX];
    size_t old = record_size(data + at) - RECORD_HEAD, most = old + RECORD_GROW, end = at + RECORD_HEAD + old;
    most = most < sizeof body ? most : sizeof body;
    most = most < old + (max - size) ? most : old + (max - size);
    memcpy(body, data + at + RECORD_HEAD, old);
    size_t len = most ? LLVMFuzzerMutate(body, old, most) : 0;
    memmove(data + at + RECORD_HEAD + len, data + end, size - end);
    memcpy(data + at + RECORD_HEAD, body, len);
    data[at + 1] = (uint8_t)len;
    data[at + 2] = (uint8_t)(len >> 8);
    return size - old + len;
}

/* A copy of one record in front of another. */
static size_t repeat_record(uint8_t *data, size_t size, size_t max, size_t at, size_t to)
{
    static uint8_t copy[RECORD_HEAD + UINT16_MAX];
    size_t bytes = record_size(data + at);
    if (bytes > max - size)
        return size;
    memcpy(copy, data + at, bytes);
    memmove(data + to + bytes, data + to, size - to);
    memcpy(data + to, copy, bytes);
    return size + bytes;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    size_t starts[RECORDS];
    uint32_t n = size <= max ? find_records(data, size, starts) : 0, how = seed % 16;
    if (!n || how < 3)
        return LLVMFuzzerMutate(data, size, max);
    size_t at = starts[(seed >> 4) % n], to = starts[(seed >> 16) % n], bytes = record_size(data + at);
    if (how == 3) {
        memmove(data + at, data + at + bytes, size - at - bytes);
        return size - bytes;
    }
    if (how < 6)
        return repeat_record(data, size, max, at, to);
    if (how == 6) {
        data[at] = data[to];
        return size;
    }
    return change_record(data, size, max, at);
}

#endif

#endif
