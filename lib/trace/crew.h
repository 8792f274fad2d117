/* crew.h - a few threads for jobs that may be cut into pieces. Inside lib/trace only.
 *
 * A job is begun by one thread, which says into how many pieces it falls; these are done by whichever threads are free, pieces of
 * older jobs before new jobs; who does the last one ends the job. So no job's memory waits behind another's that came later.
 */
#ifndef PRISM_TRACE_CREW_H
#define PRISM_TRACE_CREW_H

#include <stdbool.h>
#include <stdint.h>

struct crew_job { /* first in the caller's own structure; the crew's until end() */
    uint32_t pieces, claimed, left;
    struct crew_job *next;
};

/* Called by any of the threads, of one job never at once but for piece(). */
struct crew_work {
    uint32_t (*begin)(void *ctx, struct crew_job *job); /* number of pieces, 0 = there is nothing more to do */
    void (*piece)(void *ctx, struct crew_job *job, uint32_t number);
    void (*end)(void *ctx, struct crew_job *job); /* the crew does not touch the job any more */
};

struct crew;
/* nthreads: 1 to 16; 0 = as many as there are processors to run on but one, within these bounds. ctx and work are borrowed. */
struct crew *crew_create(const struct crew_work *work, void *ctx, int nthreads);
/* Jobs are begun in the order of these calls. Where no thread could be made the caller does the job. Thread safe. */
void crew_submit(struct crew *c, struct crew_job *job);
/* The caller, who would only wait, begins a job or does a piece of one; false: there is none to be had. */
bool crew_help(struct crew *c);
void crew_finish(struct crew *c); /* all jobs are ended, the caller helping, then the threads; NULL is fine */

#endif
