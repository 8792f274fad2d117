/* acct.h - what the files of `prism acct` share. */
#ifndef PRISM_CLI_ACCT_H
#define PRISM_CLI_ACCT_H

#include <jansson.h>
#include <stdio.h>

/* What is asked of sacct; each field ends in the delimiter, which no user can have in a comment that srun took from a shell
 * without trying to. */
#define ACCT_FORMAT    "--format=JobID,JobName,User,Account,State,ElapsedRaw,AllocTRES,AdminComment,Comment"
#define ACCT_DELIMITER '\x1f'

/* The answer, NUL-terminated, as a table or as JSON (the caller's; never NULL). text is taken apart; jobs that are not emulated
 * are passed over. Comments may hold anything. */
void acct_print(FILE *out, char *text);
json_t *acct_json(char *text);

/* `prism acct --store JOB` (acct_store.c): returns the exit code. */
int acct_store(const char *job);

#endif
