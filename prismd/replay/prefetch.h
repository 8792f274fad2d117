/* prefetch.h - payloads decompressed ahead of need, by a thread of its own.
 *
 * A rank asks for its groups' payloads in nearly the order in which they were recorded, the last iteration again and again
 * when it goes on for longer. The thread keeps the next ones of every rank in memory, as many as fit into the budget; the
 * rank that has the fewest ready comes first. What is asked for and not there is the caller's to read (a miss). If it is
 * near what the thread is at, streams have overtaken each other, and the thread goes on there; else the rank is elsewhere,
 * and so is the thread: behind what was asked for.
 */
#ifndef PRISM_PRISMD_PREFETCH_H
#define PRISM_PRISMD_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/graph.h"
#include "trace/payload.h"

struct prefetch;

/* Is anything delivered of that node (a COMM) of the rank? Others are not read. */
typedef bool (*prefetch_wants)(void *ctx, uint32_t rank, const struct graph_node *node);
/* payloads must outlive it, the graph need not; wants is asked here only. budget: bytes in memory at most (what the caller has taken
 * does not count, nor up to eight buffers that wait to be used again); 0 = none is made. Returns NULL then, or when there is no thread; all functions take NULL, which has nothing
 * ready. */
struct prefetch *prefetch_create(const struct graph *g, struct payload_reader *payloads, const uint32_t *ranks,
                                 uint32_t nranks, size_t budget, prefetch_wants wants, void *ctx);
void prefetch_destroy(struct prefetch *p);

/* What the rank's recorded node (a COMM) delivers: malloc'ed, the caller's until prefetch_give or free; *len > 0. NULL: not
 * there. Waits for what is being read already. Thread safe, as is the next. */
void *prefetch_take(struct prefetch *p, uint32_t rank, uint32_t node, size_t *len);
/* Its memory, to be used again. NULL is fine for both. */
void prefetch_give(struct prefetch *p, void *data);

struct prefetch_counts {
    uint64_t hits, misses; /* misses: of payloads that the trace has and that are wanted */
};
struct prefetch_counts prefetch_counts(const struct prefetch *p);

#endif
