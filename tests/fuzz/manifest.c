/* manifest.c - trace.json: as it is, and, as no changed input has the right checksum, with its checksum put right. */

#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 100000;

static void parse(const void *data, size_t len)
{
    struct trace_manifest m;
    if (!trace_manifest_parse("fuzz", data, len, &m, NULL))
        trace_manifest_clear(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy)
        abort();
    memcpy(copy, data, len);
    parse(data, len);
    if (trace_manifest_seal(copy, len))
        parse(copy, len);
    free(copy);
    return 0;
}
