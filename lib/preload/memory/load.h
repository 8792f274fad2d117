/* load.h - functions of the device that are used for the first time.
 *
 * CUDA loads a kernel when it is first used (CUDA_MODULE_LOADING=LAZY, its default), and to do so it may wait in the driver
 * until the whole context is idle (CUDA C++ Programming Guide, "Lazy Loading"). Measured on an H200: at a closed gate for ever,
 * and what is put on other streams meanwhile does not begin either (tests/gpu/tools/first_launch.py). So a rank whose host got
 * there could never leave its device. The wait happens here instead, holding nothing: until no stream has a stop ahead
 * (park.h) and the rank is on its device. Then the call is made with session_lock, without which no gate is closed.
 *
 * It is CUDA's own wait, so a program that would hang in it hangs in a full run too. In one that loads its kernels early
 * (CUDA_MODULE_LOADING=EAGER) functions are not waited for, but modules and libraries are: cuBLAS' first use stood there just so.
 */
#ifndef PRISM_PRELOAD_LOAD_H
#define PRISM_PRELOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/memory/residence.h"

#define LOAD_SEEN 64u
extern PRISM_THREAD const void *load_seen_[LOAD_SEEN];
bool load_begin_slow(const void *function, const void **seen);

/* The function (the runtime's or the driver's name of it) is used next. True: load_end is to be called after it. */
static inline bool load_begin(const void *function)
{
    if (!function || !residence_is_on())
        return false;
    uintptr_t at = (uintptr_t)function;
    const void **seen = &load_seen_[(at >> 4 ^ at >> 10) % LOAD_SEEN];
    return *seen != function && load_begin_slow(function, seen);
}

/* Code is loaded next that has no name yet. */
bool load_begin_code(void);

void load_end(void);

#endif
