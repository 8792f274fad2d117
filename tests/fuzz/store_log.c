/* store_log.c - store.log: what decodes encodes to the same bytes, does not decode with a bit changed, and is played to a
 * store among some ranks of a sandbox. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "c10d/log.h"
#include "c10d/replay.h"
#include "c10d/store.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 100000;

static void wake(struct c10d_waiter *waiter)
{
}

static void changed(struct c10d_waiter *watcher, enum c10d_change change, struct c10d_slice key, struct c10d_slice old_value,
                    struct c10d_slice new_value)
{
}

static int apply(void *store, const struct c10d_mutation *m, struct prism_error *err)
{
    return c10d_store_apply(store, m, NULL, err) < 0 ? -1 : 0;
}

static void play(const struct c10d_log *log)
{
    const uint32_t sandbox[] = {0, 2};
    struct prism_error err = {0};
    struct c10d_store *store = c10d_store_create((struct c10d_store_events){wake, changed});
    struct c10d_replay *replay = c10d_replay_create(log, sandbox, 2, apply, store);
    c10d_replay_start(replay, &err);
    for (size_t i = 0; i < c10d_log_count(log); i++) {
        const struct c10d_record *r = c10d_log_at(log, i);
        c10d_replay_happened(replay, r->author, r->mutation.key, r->mutation.key_len, &err);
    }
    c10d_replay_destroy(replay);
    c10d_store_destroy(store);
}

/* The input is all but the checksum. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = {0}, out = {0};
    bytes_put(&in, data, len);
    bytes_put_u64(&in, XXH64(data, len, 0));
    struct c10d_log *log = c10d_log_decode(in.data, in.len, NULL);
    in.data[in.data[in.len - 1] % in.len] ^= 1; /* somewhere in the first bytes, or in the checksum */
    if (c10d_log_decode(in.data, in.len, NULL))
        abort();
    bytes_free(&in);
    if (!log)
        return 0;
    c10d_log_encode(log, &out);
    if (out.len != len + 8 || memcmp(out.data, data, len))
        abort();
    play(log);
    bytes_free(&out);
    c10d_log_destroy(log);
    return 0;
}
