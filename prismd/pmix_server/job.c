#include "prismd/pmix_server/job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prismd/pmix_server/wire.h"

#define INFOS 16

static char *nth_name(const char *names, uint32_t n)
{
    while (n-- && (names = strchr(names, ',')))
        names++;
    return names ? strndup(names, strcspn(names, ",")) : NULL;
}

void job_read(struct job *j, const void *data, size_t len)
{
    struct bytes_reader r = bytes_reader_init(data, len);
    *j = (struct job){.name = bytes_get_string(&r), .world = bytes_get_u32(&r), .per_node = bytes_get_u32(&r)};
    j->nodes = bytes_get_string(&r);
    j->node = bytes_get_u32(&r);
    j->record = bytes_get_u32(&r);
    j->nlive = bytes_get_u32(&r);
    if (r.bad || !j->per_node || j->nlive > j->per_node)
        wire_fail("malformed description of the job");
    j->live = calloc(j->nlive + 1u, sizeof *j->live);
    j->host = nth_name(j->nodes, j->node);
    if (!j->live || !j->host)
        wire_fail("malformed description of the job");
    for (uint32_t i = 0; i < j->nlive; i++)
        j->live[i] = bytes_get_u32(&r);
}

bool job_is_live(const struct job *j, uint32_t rank)
{
    for (uint32_t i = 0; i < j->nlive; i++)
        if (j->live[i] == rank)
            return true;
    return false;
}

/* --- calls of libpmix that answer by a callback, made to wait --- */

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    pmix_status_t status;
};

static void on_done(pmix_status_t status, void *arg)
{
    struct waiting *w = arg;
    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static pmix_status_t await(struct waiting *w, pmix_status_t started)
{
    if (started != PMIX_SUCCESS)
        return started == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : started;
    pthread_mutex_lock(&w->lock);
    while (!w->done)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return w->status;
}

static void check(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS)
        wire_fail("%s: %s", what, PMIx_Error_string(status));
}

/* --- what the namespace is --- */

static void add(pmix_info_t *infos, size_t *n, const char *key, const void *value, pmix_data_type_t type)
{
    PMIX_INFO_LOAD(&infos[(*n)++], key, value, type);
}

static uint32_t first_of_node(const struct job *j, uint32_t node)
{
    uint64_t first = (uint64_t)node * j->per_node;
    return first < j->world ? (uint32_t)first : j->world;
}

/* "0,1,2;3,4,5": ranks of each node. */
static char *ranks_by_node(const struct job *j, uint32_t from, uint32_t to)
{
    char *text = malloc((size_t)(first_of_node(j, to) - first_of_node(j, from)) * 11 + 2), *at = text;
    if (!text)
        abort();
    *at = 0;
    for (uint32_t n = from; n < to; n++)
        for (uint32_t r = first_of_node(j, n); r < first_of_node(j, n + 1); r++)
            at += sprintf(at, "%s%u", r > first_of_node(j, n) ? "," : n > from ? ";" : "", r);
    return text;
}

static void register_job(const struct job *j)
{
    uint32_t nodes = (j->world + j->per_node - 1) / j->per_node, one = 1, leader = first_of_node(j, j->node);
    uint32_t local = first_of_node(j, j->node + 1) - leader;
    char *node_map = NULL, *rank_map = NULL, *all = ranks_by_node(j, 0, nodes), *peers = ranks_by_node(j, j->node, j->node + 1);
    check(PMIx_generate_regex(j->nodes, &node_map), "node map");
    check(PMIx_generate_ppn(all, &rank_map), "rank map");
    pmix_info_t infos[INFOS];
    size_t n = 0;
    add(infos, &n, PMIX_JOBID, j->name, PMIX_STRING);
    add(infos, &n, PMIX_UNIV_SIZE, &j->world, PMIX_UINT32);
    add(infos, &n, PMIX_JOB_SIZE, &j->world, PMIX_UINT32);
    add(infos, &n, PMIX_MAX_PROCS, &j->world, PMIX_UINT32);
    add(infos, &n, PMIX_JOB_NUM_APPS, &one, PMIX_UINT32);
    add(infos, &n, PMIX_NUM_NODES, &nodes, PMIX_UINT32);
    add(infos, &n, PMIX_LOCAL_SIZE, &local, PMIX_UINT32);
    add(infos, &n, PMIX_NODE_SIZE, &local, PMIX_UINT32);
    add(infos, &n, PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
    add(infos, &n, PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    add(infos, &n, PMIX_NODE_MAP, node_map, PMIX_REGEX);
    add(infos, &n, PMIX_PROC_MAP, rank_map, PMIX_REGEX);
    struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    check(await(&w, PMIx_server_register_nspace(j->name, (int)j->nlive, infos, n, on_done, &w)), "registering the job");
    free(node_map);
    free(rank_map);
    free(all);
    free(peers);
}

static uint32_t register_clients(const struct job *j)
{
    pmix_proc_t p;
    uint32_t port = 0;
    for (uint32_t i = 0; i < j->nlive; i++) {
        struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        PMIX_LOAD_PROCID(&p, j->name, j->live[i]);
        check(await(&w, PMIx_server_register_client(&p, getuid(), getgid(), NULL, on_done, &w)), "registering a rank");
    }
    /* prismd has made the ranks' environment already, around a port of its own; only the port behind it is wanted. */
    char **environment = calloc(1, sizeof *environment);
    check(PMIx_server_setup_fork(&p, &environment), "environment");
    for (char **v = environment; v && *v; v++) {
        const char *colon = strrchr(*v, ':');
        if (!strncmp(*v, "PMIX_SERVER_URI", 15) && strstr(*v, "tcp4://127.0.0.1:") && colon)
            port = (uint32_t)strtoul(colon + 1, NULL, 10);
    }
    if (!port)
        wire_fail("it does not listen on 127.0.0.1");
    return port;
}

uint32_t job_start(const struct job *j, pmix_server_module_t *module)
{
    pmix_info_t infos[INFOS];
    size_t n = 0;
    pmix_rank_t rank = j->node;
    /* Shared memory would need files; and no other user has anything to look for in a port's table. */
    setenv("PMIX_MCA_gds", "hash", 1);
    setenv("PMIX_MCA_psec", "native", 1);
    add(infos, &n, PMIX_SERVER_NSPACE, "prism", PMIX_STRING);
    add(infos, &n, PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    add(infos, &n, PMIX_HOSTNAME, j->host, PMIX_STRING);
    check(PMIx_server_init(module, infos, n), "PMIx_server_init");
    register_job(j);
    return register_clients(j);
}
