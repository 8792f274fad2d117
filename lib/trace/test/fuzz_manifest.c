/* fuzz_manifest FILE... - read each as trace.json. Also libFuzzer's entry point. */
#include <stdio.h>

#include "common/file.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct trace_manifest m;
    if (!trace_manifest_parse("fuzz", data, len, &m, NULL))
        trace_manifest_clear(&m);
    return 0;
}

#ifndef LIBFUZZER
int main(int argc, char **argv)
{
    struct bytes data = {0};
    struct prism_error err = {0};
    for (int i = 1; i < argc; i++) {
        if (file_read(argv[i], 64u << 20, &data, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        LLVMFuzzerTestOneInput(data.data, data.len);
    }
    bytes_free(&data);
    return 0;
}
#endif
