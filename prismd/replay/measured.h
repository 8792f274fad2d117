/* measured.h - calibration: what the live ranks' nodes took, from their times to the graph's works.
 *
 *     device work(n) = pre(n) - post(node before n on its stream): the kernels and copies between them. When the stream stood idle
 *                      until the host issued n, the time in between was the host's, which host work has already.
 *     host work(n)   = enter(n) - leave(n): from the program's return out of the call before to this call, and that call too if it was one
 *                      of NCCL (preload.h, real_ns).
 *
 * The way from the host to the device and back is host work, too: what an idle stream takes to get to n after the call (the launch, and a
 * kernel just in front), put before n and taken off behind it, since the host does not wait for it; and what a host that
 * waits takes to know that the device is there, with the copy itself where the call is one.
 *
 * Where capture was ended after some iterations (--prism-iterations), calibration goes on for MEASURED_PASSES more at least, until their mean
 * is known (measured_suffices), in which the last recorded one stands for each, as in emulation. Its works are then the means over those passes that take as long as most, not
 * what it took the first time: PyTorch's allocator, clocks and caches take longer than a handful of iterations to come to rest. Means
 * over all of these passes and not medians, nor over those that have the node, since an iteration is the sum of its works.
 */
#ifndef PRISM_PRISMD_MEASURED_H
#define PRISM_PRISMD_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/graph.h"
#include "proto/message.h"

#define MEASURED_PASSES  6u
#define MEASURED_MOST    48u   /* passes … */
#define MEASURED_SECONDS 10.0  /* … and what they may take: a mean that is not known then is taken as it is */
#define MEASURED_ERROR   0.001 /* standard error of the mean, relative, with which it is known */

/* Nothing more has to be measured after n passes that took so long each: there are MEASURED_PASSES, and the standard error of the mean,
 * s / sqrt(n) with s the sample's standard deviation, is small enough; or it has been long enough. */
bool measured_suffices(const double *seconds, uint32_t n);

struct measured;
struct measured *measured_create(const struct graph_rank *r); /* borrows r */
void measured_destroy(struct measured *m);                    /* NULL is fine */
/* The rank's next node (m->index counts them): its host times go to the recorded node that it is (align.h). ordinal: of a COMM
 * node. */
void measured_node(struct measured *m, const struct msg_node *node, uint32_t ordinal);
void measured_times(struct measured *m, const struct msg_time *times, uint32_t n);
/* Works of the rank's nodes into the graph (graph_alloc_works). Returns the number of recorded nodes measured. */
uint32_t measured_to_works(const struct measured *m, struct graph *g, uint32_t rank);

#endif
