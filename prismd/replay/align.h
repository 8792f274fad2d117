/* align.h - which recorded node a node of a live rank is, when the two sequences are not equal.
 *
 * Communication is the same in every run (another operation is divergence, told by emulate.c). What lies between two COMM
 * nodes need not be: PyTorch's allocator records and asks events as memory happens to come free, compilers wait for the
 * device once and not again, threads take turns. So COMM nodes match by communicator and ordinal, and between two of them the
 * k-th node of a kind on a stream matches the k-th recorded there of that kind and stream. Others match nothing.
 *
 * Behind the recorded end, if that is an iteration's end, the last iteration comes again and again: passes 1, 2 ...; what
 * has been recorded is pass 0.
 */
#ifndef PRISM_PRISMD_ALIGN_H
#define PRISM_PRISMD_ALIGN_H

#include "graph/graph.h"

struct align;

/* Borrows r. */
struct align *align_create(const struct graph_rank *r);
void align_destroy(struct align *a); /* NULL is fine */

/* The rank's next node in issue order (live nodes count 0, 1, 2 …): index of the recorded one, or -1. comm and ordinal are of
 * COMM nodes. */
int64_t align_next(struct align *a, uint8_t kind, uint32_t stream, uint32_t comm, uint32_t ordinal);
/* The pass of the node that was found last. */
uint32_t align_pass(const struct align *a);
/* The recorded node of a live one that has been given to align_next; -1 for others. */
int64_t align_find(const struct align *a, uint32_t live);

#endif
