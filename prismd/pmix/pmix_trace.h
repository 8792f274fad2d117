/* pmix_trace.h - pmix.log in the trace folder. */
#ifndef PRISM_PRISMD_PMIX_TRACE_H
#define PRISM_PRISMD_PMIX_TRACE_H

#include "prismd/daemon.h"
#include "prismd/pmix/pmix_log.h"

/* *log stays NULL if no rank used PMIx in capture. Refuses a program whose ranks would wait for others that do not run. */
int pmix_trace_read(const char *trace, uint32_t world, uint32_t nlive, struct pmix_log **log, struct prism_error *err);
/* Without records (or log) an old file is removed. */
int pmix_trace_write(const char *trace, const struct pmix_log *log, struct prism_error *err);

#endif
