/* marks.h - NVTX ranges of the program, told to prismd: which of them is an iteration is found there (graph/marks.h).
 *
 * Only in capture, only of threads that have issued nodes, only the outer MARKS_DEPTH levels. A name is its hash (nvtx.c). A rank tells
 * MARKS_NAMES names and of each MARKS_EACH ranges; a name of which there are more, or two with no group of operations between their
 * beginnings (layers, kernels), is no iteration: it is dropped, told so once, and costs next to nothing from then on.
 *
 * A mark's position is the number of the rank's nodes in front of it. Marks of a thread that has issued no node yet, and those that
 * come while another thread issues one, are kept and sent before the thread's next node or mark: no push waits for that.
 */
#ifndef PRISM_PRELOAD_MARKS_H
#define PRISM_PRELOAD_MARKS_H

#include <stdint.h>

#define MARKS_DEPTH 4
#define MARKS_NAMES 64u
#define MARKS_EACH  512u
#define MARKS_KEPT  32u /* by a thread; one that has more at a time tells none any more */

/* A range of that name begins in the calling thread (name 0: one that is told nobody); the level of it: 0 = the outermost. Callable
 * anywhere, at any time, in any process. */
int marks_push(uint64_t name);
/* The innermost one ends; its level, negative if there is none. */
int marks_pop(void);

/* Called before each node that the thread sends, session_lock held: what the thread has kept goes first. */
void marks_send_kept(void);

#endif
