/* bootstrap_pmix.h - the part of PMIx that bootstrap.c needs; libpmix.so.2 is loaded by the first call. Built
 * without pmix.h, pmix_open says so. All functions die with a message on errors. */
#ifndef MOETRAIN_BOOTSTRAP_PMIX_H
#define MOETRAIN_BOOTSTRAP_PMIX_H

#include <stddef.h>

struct pmix_identity {
    int rank, world, local_rank; /* local_rank -1 if the server does not say */
};

struct pmix_identity bootstrap_pmix_open(long timeout_seconds);
void bootstrap_pmix_publish(const char *key, const void *value, size_t size);
void bootstrap_pmix_exchange(
    void); /* commit, and a fence of the whole job that collects what was published */
void bootstrap_pmix_fetch(const char *key, int owner, void *value, size_t size);
void bootstrap_pmix_close(void);

#endif
