/* tasks.h - steps that turn out to be no emulation: `srun mkdir -p results` in a job that is emulated.
 *
 * Capture starts the step's processes as it starts ranks, PRISM_RUNNABLE at a time. A process that ends before any has touched
 * CUDA or NCCL is a task like any other: what it ends with does not end the step, the highest exit code is the step's, as with
 * srun. Where the request has one task a node (a launcher, conf.h) only the first rank of each logical node is started; the
 * others follow once a process of this machine has become its rank.
 *
 * If no process of the step has made a communicator when all have ended well, there is nothing to emulate: their output is the
 * step's, and a line in steps.log of the trace folder is all that is left. Meanwhile what they write lies in a folder of the
 * step's own where the trace belongs to another program already. Only in steps of Slurm jobs: `prism run` says exit code 66.
 */
#ifndef PRISM_PRISMD_TASKS_H
#define PRISM_PRISMD_TASKS_H

#include "prismd/daemon.h"

/* After so many failures and no success the rest is not started: a program that cannot start ends soon, whatever N is. */
#define TASKS_FAILURES_MAX 32

/* With the lock held. */
void tasks_begin(struct daemon *d);
/* Is this rank to wait for a first one? */
bool tasks_defers(const struct daemon *d, uint32_t rank);
/* A rank said HELLO: starts those that waited, and ends the run if a task had failed before. */
void tasks_became(struct daemon *d);
/* A process waits for the others of the job (PMIx): starts those that waited; all are tasks still. */
void tasks_start_deferred(struct daemon *d);
/* A process ended with that wait(2) status. True: it was a task, there is nothing more to judge. */
bool tasks_took_end(struct daemon *d, const struct rank *r, int status);

/* --- the coordinator, when all nodes are done --- */

void tasks_put(const struct daemon *d, struct bytes *out);
void tasks_take(struct tasks *sum, struct bytes_reader *b);
/* From here on capture writes into a folder of the step's own in the trace's, which another program has, or which may not be
 * written yet: conf->trace names it until tasks_put_back, which removes it. */
void tasks_set_aside(struct daemon *d);
void tasks_put_back(struct daemon *d); /* nothing where nothing was set aside */
/* Writes the outputs to standard output in the order of ranks, removes them, and leaves the line in steps.log of the trace that was
 * asked for. */
int tasks_finish(const struct daemon *d, const struct tasks *sum, struct prism_error *err);

#endif
