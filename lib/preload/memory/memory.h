/* memory.h - the program's own device allocations: live and peak bytes, as it asked for them.
 *
 * Thread-safe by a lock of its own; may be called with session_lock held.
 */
#ifndef PRISM_PRELOAD_MEMORY_H
#define PRISM_PRELOAD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* key: device address, or for cuMemCreate the allocation handle (kinds do not mix). */
enum memory_kind { MEMORY_POINTER, MEMORY_HANDLE };

void memory_add(enum memory_kind kind, uint64_t key, uint64_t bytes);
/* False if it is not ours to count. */
bool memory_remove(enum memory_kind kind, uint64_t key);
/* Free all device memory of the program for real (cudaDeviceReset). */
void memory_free_all(void);
/* Send MSG_MEMORY now. */
void memory_report(void);

/* Device memory that the program freed while a gate was closed: freed for real once none is (capture only).
 * session_lock held. */
void memory_defer_free(uint64_t pointer);
void memory_free_deferred(void);

#endif
