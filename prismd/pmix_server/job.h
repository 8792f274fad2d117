/* job.h - the logical namespace as one logical node's PMIx server describes it. */
#ifndef PRISM_PMIX_SERVER_JOB_H
#define PRISM_PMIX_SERVER_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <pmix.h>
#include <pmix_server.h>

struct job {
    char *name;  /* of the namespace; owned */
    uint32_t world, per_node, node;
    char *nodes; /* names with commas, in order; owned */
    char *host;  /* this node's name; owned */
    bool record; /* capture: what ranks put is passed on */
    uint32_t *live; /* owned; of this node, ascending */
    uint32_t nlive;
};

/* From a PMIX_WIRE_JOB message. */
void job_read(struct job *j, const void *data, size_t len);
/* Start libpmix's server with `module` and register namespace and clients. Returns its TCP port on 127.0.0.1. */
uint32_t job_start(const struct job *j, pmix_server_module_t *module);
bool job_is_live(const struct job *j, uint32_t rank);

#endif
