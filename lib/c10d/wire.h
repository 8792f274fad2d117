/* wire.h - the requests of TCPStore's protocol, as bytes (internal to lib/c10d).
 *
 * Source: torch/csrc/distributed/c10d, TCPStore.cpp and TCPStoreBackend.hpp of several commits, the latter also as shipped
 * with 2.15. Tested with real clients of 1.13 and 2.15 only (test/torch.bats). All integers are little-endian (the
 * protocol uses the host's order and PyTorch's hosts are little-endian).
 *
 *     string, bytes   u64 length, then the bytes            strings   u64 count, then as many strings
 *
 *     operation      modern legacy  arguments                    reply
 *     VALIDATE          0     -     u32 0x3C85F7CE               none
 *     SET               1     0     string key, bytes value      none
 *     COMPARE_SET       2     1     key, expected, desired       bytes: the value afterwards
 *     GET               3     2     key                          bytes (empty when missing)
 *     ADD               4     3     key, i64                     i64 sum
 *     CHECK             5     4     strings                      u8: 0 all there, 1 not
 *     WAIT              6     5     strings                      u8 0, once all are there
 *     GETNUMKEYS        7     6                                  i64
 *     WATCH_KEY         -     7     key                          u8 3; then a change message a mutation (below)
 *     DELETE_KEY        8     8     key                          i64: 1 deleted, 0 was missing
 *     APPEND            9     9     key, value                   none
 *     MULTI_GET        10    10     strings                      bytes for each
 *     MULTI_SET        11    11     u64 count, (key, value)...   none
 *     CANCEL_WAIT      12    12                                  u8 1
 *     PING             13     -     u32                          the same u32
 *     QUEUE_PUSH       14     -     key, value                   none
 *     QUEUE_POP        15     -     key                          i64 length before, then bytes if it was not empty
 *     QUEUE_LEN        16     -     key                          i64
 *     LIST_KEYS        17     -                                  i64 count, strings
 *     BARRIER          18     -     key, i64 world size          u8 0, once that many have come
 *
 *     change message (legacy)   u8: 0 updated, 1 created, 2 deleted, 4 appended; string key; bytes old; bytes new
 *
 * Numbers 9 to 12 of the legacy dialect came after 1.13. For a while PyTorch's development had neither an opening nor
 * WATCH_KEY: DELETE_KEY was 7 and what follows one less. Such clients cannot be told from legacy ones and are served
 * right only below 7 (set, get, add, check, wait); which releases that was (2.1, probably) is not checked.
 */
#ifndef PRISM_C10D_WIRE_H
#define PRISM_C10D_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"

#define C10D_MAGIC 0x3C85F7CEu

enum c10d_dialect { C10D_DIALECT_UNKNOWN, C10D_DIALECT_MODERN, C10D_DIALECT_LEGACY };

/* Numbered as the modern dialect numbers them. */
enum c10d_op {
    C10D_OP_VALIDATE,
    C10D_OP_SET,
    C10D_OP_COMPARE_SET,
    C10D_OP_GET,
    C10D_OP_ADD,
    C10D_OP_CHECK,
    C10D_OP_WAIT,
    C10D_OP_GETNUMKEYS,
    C10D_OP_DELETE_KEY,
    C10D_OP_APPEND,
    C10D_OP_MULTI_GET,
    C10D_OP_MULTI_SET,
    C10D_OP_CANCEL_WAIT,
    C10D_OP_PING,
    C10D_OP_QUEUE_PUSH,
    C10D_OP_QUEUE_POP,
    C10D_OP_QUEUE_LEN,
    C10D_OP_LIST_KEYS,
    C10D_OP_BARRIER,
    C10D_OP_WATCH_KEY /* legacy only */
};

struct c10d_slice {
    const uint8_t *data; /* borrowed from the decoded buffer */
    size_t len;
};

struct c10d_request {
    enum c10d_op op;
    struct c10d_slice key;
    struct c10d_slice value;  /* expected, for COMPARE_SET */
    struct c10d_slice second; /* desired, for COMPARE_SET */
    int64_t number;           /* ADD, BARRIER; the nonce of PING */
    uint64_t count;           /* strings of CHECK, WAIT, MULTI_GET; pairs of MULTI_SET */
    struct c10d_slice items;  /* them, still encoded: c10d_wire_next() */
};

/* Which dialect does this connection speak? UNKNOWN while fewer than five bytes of a possible VALIDATE are there. */
enum c10d_dialect c10d_wire_detect(const uint8_t *data, size_t len);

/* Decode one request. Returns the bytes it takes; 0 when there are not enough yet, *need then says how many to have
 * before asking again is useful; -1 when malformed or over the bounds of mutation.h, *why then says what. */
int64_t c10d_wire_decode(enum c10d_dialect dialect, const uint8_t *data, size_t len,
                         struct c10d_request *request, size_t *need, const char **why);

/* Take the next string off an items slice that c10d_wire_decode has checked. */
struct c10d_slice c10d_wire_next(struct c10d_slice *items);

#endif
