/* marks.h - ranges that the program itself names (NVTX), and the training iterations that they tell.
 *
 * A mark is the beginning or the end of a range in one of a rank's host threads, and lies between two nodes of the rank. Names are
 * hashes. The same name is the same kind of range on all ranks.
 *
 * Which range is the iteration is for the user to say (PRISM_ITERATION_RANGE): programs and their libraries name micro-batches, layers and epochs,
 * too, and which is which cannot be told from the operations. That name is it if every rank that communicates has as many of it, two at least,
 * and communicates in each, and if every member of a communicator has done as many collectives on it at the beginning of each. Ranges need
 * not be alike: what differs (a validation in every third, another number of micro-batches) is what periodicity cannot tell. Where
 * parts follow each other, "forward", "backward" and "step", the iteration is from "forward" to "forward", if that is the name.
 *
 * Bounds are those of graph_find_iterations: right after the last COMM node before the beginning of a range. The last iteration ends with its ranges
 * where no group lies between one iteration's ranges and the next; else it is as long as the one before, where its groups are like
 * those on all ranks, else it ends with its ranges all the same.
 */
#ifndef PRISM_GRAPH_MARKS_H
#define PRISM_GRAPH_MARKS_H

#include "graph/graph.h"

#define GRAPH_MARKS_MAX 66000u /* of a rank; of one that has more none is used */

enum graph_mark_kind {
    GRAPH_MARK_PUSH = 1,
    GRAPH_MARK_POP,
    GRAPH_MARK_DROP, /* ranges of this name are not to be used, on this rank */
};

struct graph_marks;

struct graph_marks *graph_marks_create(uint32_t world);
void graph_marks_destroy(struct graph_marks *m); /* NULL is fine */

/* position: nodes of the rank in front of it. Marks come in order, but one may come late. -1: no such rank or kind. */
int graph_marks_add(struct graph_marks *m, uint32_t rank, int kind, uint64_t name, uint32_t position);
/* A rank's marks become those of another one, which may be of another set (of as many ranks or more). */
void graph_marks_copy(struct graph_marks *to, uint32_t to_rank, const struct graph_marks *from, uint32_t from_rank);

/* From one process of this build to another. NULL has none. */
void graph_marks_put(const struct graph_marks *m, struct bytes *out);
/* NULL: malformed (b->bad is set). */
struct graph_marks *graph_marks_take(struct bytes_reader *b, uint32_t world);

/* After graph_find_iterations: where marks tell the iterations, they replace what it found. True: they do. only: the hash of the name that the
 * user gave (common/range_name.h), 0 = none: false. ended_after: 0, or the number of iterations after which the program was ended from outside;
 * then there must be as many whole ones, each followed by another. m may be NULL. */
bool graph_find_marked_iterations(struct graph *g, const struct graph_marks *m, uint64_t only, uint32_t ended_after);

/* As graph_count_iterations, by the rank's own marks: ranges of that name that are followed by another. -1: there is none of it yet, or it was
 * dropped, or no name was given. */
int64_t graph_count_marked_iterations(const struct graph_marks *m, uint32_t rank, uint64_t only, uint32_t nodes);

#endif
