/* mutation.h - what can happen to one key of a c10d store, the common word of server, log and replayer.
 *
 * Keys and values are bytes, not strings. A mutation borrows both; whoever keeps one copies them.
 */
#ifndef PRISM_C10D_MUTATION_H
#define PRISM_C10D_MUTATION_H

#include <stddef.h>
#include <stdint.h>

/* The numbers are on disk (docs/formats/store-log.md): never renumber. */
enum c10d_kind {
    C10D_SET = 1,    /* value; a MULTI_SET is one C10D_SET a key */
    C10D_ADD = 2,    /* delta */
    C10D_DELETE = 3, /* the key was there and is gone */
    C10D_APPEND = 4, /* value is what was added at the end */
    C10D_COMPARE_SET =
        5,               /* one that found what it expected: value is the new value, applied again as a set */
    C10D_QUEUE_PUSH = 6, /* value at the end of the key's queue */
    C10D_QUEUE_POP = 7,  /* value is what was taken; applied again it takes whatever is first */
    C10D_BARRIER =
        8, /* one more arrived (an add of 1 that wakes nobody before delta, the world size, have) */
};

/* Bounds on what a client may send. PyTorch's own (libuv) server has 8 KiB and 8 MiB. */
#define C10D_KEY_MAX     (64u << 10)
#define C10D_VALUE_MAX   (64u << 20)
#define C10D_KEYS_MAX    (128u << 10)   /* keys in one WAIT, CHECK, MULTI_GET or MULTI_SET */
#define C10D_REQUEST_MAX (256ull << 20) /* bytes of one request altogether */

struct c10d_mutation {
    enum c10d_kind kind;
    const void *key;
    size_t key_len;
    const void *value; /* NULL when the kind has none */
    size_t value_len;
    int64_t delta; /* C10D_ADD and C10D_BARRIER, else 0 */
};

const char *c10d_kind_name(enum c10d_kind kind); /* "set", "add", …; "?" when unknown */

#endif
