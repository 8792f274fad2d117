/* acct.h - what the files of `prism acct` share. */
#ifndef PRISM_CLI_ACCT_H
#define PRISM_CLI_ACCT_H

/* `prism acct --store JOB` (acct_store.c): returns the exit code. */
int acct_store(const char *job);

#endif
