/* fuzz.h - what a fuzz target is: one file tests/fuzz/TARGET.c with both of these.
 *
 * `make unit` runs it by main.c: the files of tests/fuzz/corpus/TARGET, then inputs changed from them. tests/fuzz/run builds
 * it as libFuzzer's or AFL++'s (FUZZ=libfuzzer, FUZZ=afl), with FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION: checksums hold.
 * Targets whose input is records of u8, u16 length, bytes include records.h: libFuzzer then changes them as such.
 */
#ifndef PRISM_TESTS_FUZZ_H
#define PRISM_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* The fuzzers' entry point. Any input; what is wrong ends the process (abort, or a sanitizer). Always 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Inputs that `make unit` makes of the corpus: as many as take a second or two. */
extern const uint32_t fuzz_unit_runs;

#endif
