/* share.h - work on a row of elements, shared by threads. */
#ifndef PRISM_COLL_SHARE_H
#define PRISM_COLL_SHARE_H

#include <stddef.h>
#include <stdint.h>

/* Threads that help below, until the end: so many with the caller's own, 16 at most; 0: one a processor. By one thread, while nobody
 * shares. Without them everything is done by who calls. */
void coll_share_begin(uint32_t threads);
void coll_share_end(void);

/* f(arg, from, to) for stretches that cover [0, count), each but the last of whole blocks, in no order. work: how many threads would be
 * worth waking, at least 2; the caller is one of them, and returns when all is done. Thread safe; who comes while the helpers are
 * somebody else's does it alone. f must not call this. */
void coll_share(uint64_t count, uint64_t block, uint64_t work, void (*f)(const void *arg, uint64_t from, uint64_t to), const void *arg);

/* Copy `bytes` bytes from one place to n others, which overlap neither it nor each other. */
void coll_copy_to(void *const *to, uint32_t n, const void *from, uint64_t bytes);
static inline void coll_copy(void *to, const void *from, uint64_t bytes)
{
    coll_copy_to(&to, 1, from, bytes);
}

#endif
