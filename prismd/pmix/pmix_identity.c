#include "prismd/pmix/pmix_identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static uint32_t logical_nodes(const struct conf *c)
{
    return (c->world + c->gpus_per_node - 1) / c->gpus_per_node;
}

void pmix_node_name(const struct conf *c, uint32_t node, char name[NAMES_NODE_MAX])
{
    uint32_t nodes = logical_nodes(c);
    names_node(c->node_base ? c->node_base : "node", c->node_count > nodes ? c->node_count : nodes, node, name);
}

char *pmix_node_names(const struct conf *c)
{
    uint32_t nodes = logical_nodes(c);
    char *all = malloc((size_t)nodes * NAMES_NODE_MAX + 1), *at = all, name[NAMES_NODE_MAX];
    if (!all)
        abort();
    *at = 0;
    for (uint32_t n = 0; n < nodes; n++) {
        pmix_node_name(c, n, name);
        at += sprintf(at, "%s%s", n ? "," : "", name);
    }
    return all;
}

/* The variables of Slurm's own PMIx (srun --mpi=pmix) or PMI are of another job. The user's parameters stay. */
static void drop_others(void)
{
    for (char **v = environ; *v;) {
        char *name = strndup(*v, strcspn(*v, "="));
        bool other = name && ((!strncmp(name, "PMIX_", 5) && strncmp(name, "PMIX_MCA_", 9)) || !strncmp(name, "PMI_", 4) ||
                              !strncmp(name, "SLURM_PMI", 9));
        if (other)
            unsetenv(name); /* moves what follows here */
        else
            v++;
        free(name);
    }
}

/* Open MPI 4 takes a process that neither mpirun nor a resource manager it knows has started for a world of one. Slurm is one
 * it knows, if there is a step; and so is jsrun, by this variable. */
static void help_open_mpi(const struct conf *c)
{
    if (getenv("SLURM_JOBID"))
        setenv("SLURM_STEP_ID", "0", 0);
    else
        setenv("JSM_JSRUN_PORT", "1", 0);
    /* Its shared memory is named after the host and the local rank: without names of logical nodes, those of one machine
     * would share it. */
    if (!c->node_base && logical_nodes(c) > 1)
        setenv("OMPI_MCA_btl", "^vader,sm", 0);
}

void pmix_set_variables(const struct rank *r, const char *name, uint16_t port)
{
    /* As PMIx_server_setup_fork sets, for clients from version 2 to 5. */
    static const char *const uris[] = {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4",
                                       "PMIX_SERVER_URI41"};
    const struct conf *c = r->daemon->conf;
    uint32_t node = r->number / c->gpus_per_node;
    char text[NAMES_NODE_MAX];
    drop_others();
    unsetenv("PRISM_PMIX");
    if (!name)
        return;
    setenv("PMIX_NAMESPACE", name, 1);
    snprintf(text, sizeof text, "%u", r->number);
    setenv("PMIX_RANK", text, 1);
    snprintf(text, sizeof text, "prism.%u;tcp4://127.0.0.1:%u", node, port);
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++)
        setenv(uris[i], text, 1);
    pmix_node_name(c, node, text);
    setenv("PMIX_HOSTNAME", text, 1);
    setenv("PMIX_SECURITY_MODE", "native", 1);
    setenv("PMIX_GDS_MODULE", "hash", 1);
    setenv("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", 1);
    help_open_mpi(c);
}
