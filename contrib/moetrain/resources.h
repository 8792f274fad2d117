/* resources.h - what a rank holds until it ends, made here so that one call gives all of it back. All
 * functions die with a message when there is none. */
#ifndef MOETRAIN_RESOURCES_H
#define MOETRAIN_RESOURCES_H

#include <cuda_runtime_api.h>
#include <stddef.h>

/* A stream that does not wait for the legacy default stream. */
cudaStream_t resource_stream(void);
/* For ordering only, and for measuring time between. */
cudaEvent_t resource_event(void);
cudaEvent_t resource_timer(void);
/* Pinned host memory; zeroed host memory; device memory (memory.h keeps the account). 0 bytes are served
 * as 1. */
void *resource_pinned(size_t bytes);
void *resource_host(size_t count, size_t size);
void *resource_device(size_t bytes);

/* Wait for the device, then give everything back, last made first. */
void resources_release(void);

#endif
