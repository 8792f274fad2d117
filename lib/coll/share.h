/* share.h - work on a row of elements, shared by threads. */
#ifndef PRISM_COLL_SHARE_H
#define PRISM_COLL_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* f(arg, from, to) for stretches that cover [0, count), each but the last of whole blocks. With `work`, how many threads would be
 * worth starting, at least 2: in so many threads, one a processor and 16 at most, started and joined here, the caller one of them. */
void coll_share(uint64_t count, uint64_t block, uint64_t work, void (*f)(const void *arg, uint64_t from, uint64_t to), const void *arg);

/* Copy `bytes` bytes from one place to n others, which overlap neither it nor each other. */
void coll_copy_to(void *const *to, uint32_t n, const void *from, uint64_t bytes);
static inline void coll_copy(void *to, const void *from, uint64_t bytes)
{
    coll_copy_to(&to, 1, from, bytes);
}

#endif
