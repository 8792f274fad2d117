/* scratch.h - a folder for one test, and damage to files in it. */
#ifndef PRISM_TRACE_TEST_SCRATCH_H
#define PRISM_TRACE_TEST_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

int scratch_make(void **state);   /* cmocka setup: *state is the path */
int scratch_remove(void **state); /* cmocka teardown */
void scratch_path(char *path, size_t len, const char *dir, const char *name);
void scratch_flip(const char *dir, const char *name, long offset);   /* negative: from the end */
void scratch_truncate(const char *dir, const char *name, long size); /* negative: less than now */
long scratch_size(const char *dir, const char *name);                /* -1: missing */
uint64_t scratch_random(uint64_t *state);

#endif
