/* accounting.h - what Slurm's accounting is told of a run: the job's Comment (accounting_text.h), at the end of every phase and
 * every minute in between, so that a job that is killed loses at most a minute.
 *
 * Only the first node's prismd inside a Slurm job does it. `prism acct --store`, a child beside it, talks to slurmctld
 * (squeue, scontrol): however slow that is, the run does not wait, but for up to ten seconds at its end. Failing is no
 * failure of the run: one line says so.
 */
#ifndef PRISM_PRISMD_ACCOUNTING_H
#define PRISM_PRISMD_ACCOUNTING_H

#include "prismd/daemon.h"

void accounting_begin(struct daemon *d);
/* From now on time belongs to this phase ("capture", "calibrate", "emulate"). trace_id may be NULL; borrowed until the end. */
void accounting_phase(struct daemon *d, const char *name, const char *trace_id);
/* The results are in the trace's report.json: take them from there, so that both say the same. */
void accounting_report(struct daemon *d);
/* The step was none to emulate (tasks.h). Until then a capture says "begun", as long as nobody has made a communicator. */
void accounting_none(void);
void accounting_end(struct daemon *d, int exit_code);
/* Was this child ours? Called for every child that has ended, with its status. */
bool accounting_reaped(pid_t pid, int status);

#endif
