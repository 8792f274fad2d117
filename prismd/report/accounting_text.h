/* accounting_text.h - a job's Comment and AdminComment: "the user's own; prism:key=value,key=value" (docs/formats/accounting.md).
 *
 * Pure text, shared by prismd, which writes it, and the prism command, which stores and reads it.
 */
#ifndef PRISM_PRISMD_ACCOUNTING_TEXT_H
#define PRISM_PRISMD_ACCOUNTING_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNTING_MAX 1024 /* bytes of a comment, with the final NUL: Slurm's limit */

/* What is known of a run so far. */
struct accounting_record {
    uint32_t world, gpus_per_node, devices, sandbox_ranks;
    const char *sandbox; /* "0,17"; left out when it is long */
    int assistants;      /* -1 = not given */
    const char *phase;   /* asked for */
    const char *step;    /* "12.0" */
    const char *restart; /* SLURM_RESTART_COUNT, or NULL */
    const char *state;   /* begun (or no emulation at all), capture, calibrate, emulate; ended, none */
    double capture_seconds, calibrate_seconds, emulate_seconds; /* wall clock */
    uint32_t iterations;                                        /* of the emulation behind `seconds`; 0 = none yet */
    double iteration_seconds;                                   /* their mean, without the first one */
    uint64_t peak_memory_bytes;                                 /* of the sandbox rank with most; 0 = not known */
    double prediction_error;                                    /* < 0 = not known */
    const char *trace_id;                                       /* NULL = none yet */
    int exit_code;                                              /* < 0 = still running */
    const char *exit_origin;                                    /* program or prism */
};

/* world x wall-clock hours of all phases: what the full job would have held for the same time. */
double accounting_gpu_hours(const struct accounting_record *r);
/* "prism:world=64,...": at most ACCOUNTING_MAX with the NUL. The sums are this step's own; begun and none have none. */
void accounting_print(const struct accounting_record *r, char out[ACCOUNTING_MAX]);

/* The "prism:..." part of a comment (the last one), or NULL. */
const char *accounting_find(const char *comment);
/* Value of a key of that part; false when it is not there. A value longer than size - 1 is cut. */
bool accounting_value(const char *part, const char *key, char *out, size_t size);
double accounting_number(const char *part, const char *key); /* NAN when it is not there or no number */

/* What of a step is in the sums of its job's Comment (emulated_gpu_hours, steps, failed): zero before its first update. */
struct accounting_share {
    double hours;
    double steps, failed;
};

/* The comment with ours (from accounting_print) in it. The job's sums get what ours has more than `share`; the other keys are
 * those of the step with the highest number. A step of which it is not known whether it is an emulation, or known that it
 * is none (begun, none), leaves the results of another as they are. What a start of the job before this one (restart) left
 * is replaced. Keys that people can do without give way, the user's own text never; -1 when it does not fit even so (out is
 * then ""). After out has been stored, *next is the share. */
int accounting_merge(const char *comment, const char *ours, const struct accounting_share *share, struct accounting_share *next,
                     char out[ACCOUNTING_MAX]);

#endif
