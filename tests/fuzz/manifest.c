/* manifest.c - trace.json. */

#include "trace/trace.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_unit_runs = 100000;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct trace_manifest m;
    if (!trace_manifest_parse("fuzz", data, len, &m, NULL))
        trace_manifest_clear(&m);
    return 0;
}
