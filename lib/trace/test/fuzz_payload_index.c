/* fuzz_payload_index FILE... - read each as payload-<node>.idx, with the checksum made right, so that a
 * fuzzer gets behind it. Also libFuzzer's entry point. */
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "trace/payload_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct payload_index index;
    struct bytes sealed = {0};
    bytes_put(&sealed, data, len > 8 ? len - 8 : 0);
    bytes_put_u64(&sealed, payload_index_checksum(sealed.data, sealed.len));
    if (!payload_index_parse("fuzz", sealed.data, sealed.len, &index, NULL))
        payload_index_clear(&index);
    bytes_free(&sealed);
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
