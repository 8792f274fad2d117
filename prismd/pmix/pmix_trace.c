#include "prismd/pmix/pmix_trace.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "common/file.h"

#define LOG_LIMIT (1ull << 32)

static void log_path(const char *trace, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/pmix.log", trace);
}

/* Open MPI's ranks talk to each other by what they put; those that do not run do not answer. */
static int check_mpi(const struct pmix_log *log, uint32_t world, uint32_t nlive, struct prism_error *err)
{
    if (nlive == world || !pmix_log_mentions(log, "pml.base"))
        return 0;
    return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                           "the program communicates by MPI, and %u of its %u ranks would not run: MPI of absent ranks is not "
                           "played; capture works (--prism-phase=capture), and so does a sandbox of all ranks",
                           world - nlive, world);
}

int pmix_trace_read(const char *trace, uint32_t world, uint32_t nlive, struct pmix_log **log, struct prism_error *err)
{
    char path[PATH_MAX];
    struct bytes b = {0};
    log_path(trace, path);
    if (access(path, F_OK))
        return 0;
    int rc = file_read(path, LOG_LIMIT, &b, err);
    if (!rc)
        rc = (*log = pmix_log_decode(b.data, b.len, err)) ? check_mpi(*log, world, nlive, err) : -1;
    bytes_free(&b);
    return rc;
}

int pmix_trace_write(const char *trace, const struct pmix_log *log, struct prism_error *err)
{
    char path[PATH_MAX];
    struct bytes b = {0};
    log_path(trace, path);
    if (!log || !pmix_log_count(log)) {
        unlink(path);
        return 0;
    }
    pmix_log_encode(log, &b);
    int rc = file_write_atomic(path, b.data, b.len, 0644, err);
    bytes_free(&b);
    return rc;
}
