/* script.h - the environment of a batch script, or of salloc's shell: it sees the job that was asked for, Slurm the one that was
 * allocated.
 *
 * What is replaced is kept in one variable (client.h, CLIENT_REAL_VARIABLE), with which cli_filter.c finds the allocation and gives it
 * back to steps that are not emulated. Knows nothing of Slurm; part of the static library prismopt.
 */
#ifndef PRISM_SPANK_SCRIPT_H
#define PRISM_SPANK_SCRIPT_H

#include <stddef.h>

struct script_environment {
    /* Copies the value: 1 = it is there, 0 = it is not, -1 = it is longer than size. */
    int (*get)(void *ctx, const char *name, char *value, size_t size);
    void (*set)(void *ctx, const char *name, const char *value); /* value NULL: unset */
    void *ctx;
};

/* Of the environment that holds what client_export has published, and Slurm's variables of the allocation. */
void script_show_job(const struct script_environment *e);

#endif
