/* pmix_log.c - pmix.log: what decodes encodes to something that decodes alike, and can be asked; with a bit changed nothing
 * does. */
#include <stdlib.h>
#include <xxhash.h>

#include "prismd/pmix/pmix_log.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 20000;

/* The input is all but the checksum. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes in = {0}, out = {0};
    bytes_put(&in, data, len);
    bytes_put_u64(&in, XXH64(data, len, 0));
    struct pmix_log *log = pmix_log_decode(in.data, in.len, NULL), *back;
    in.data[in.data[in.len - 1] % in.len] ^= 1; /* somewhere in the first bytes, or in the checksum */
    if (pmix_log_decode(in.data, in.len, NULL))
        abort();
    bytes_free(&in);
    if (!log)
        return 0;
    for (uint32_t rank = 0; rank < 4; rank++)
        for (uint32_t fences = 0; fences < 3; fences++)
            pmix_log_find(log, rank, fences, rank & 1 ? "key" : "");
    pmix_log_mentions(log, "key");
    pmix_log_encode(log, &out);
    back = pmix_log_decode(out.data, out.len, NULL);
    if (!back || pmix_log_count(back) != pmix_log_count(log))
        abort();
    pmix_log_destroy(back);
    pmix_log_destroy(log);
    bytes_free(&out);
    return 0;
}
