/* job_submit.c - job_submit_prism.so: runs in slurmctld when a job arrives; the site's limits for emulated jobs, their
 * licences and their AdminComment (policy.h, docs/slurm.md, docs/formats/accounting.md).
 *
 * Slurm ships no headers for such plugins; what is declared here slurmctld exports since 20.11. A job without --prism
 * options costs one walk over its SPANK variables. A broken prism.conf stops emulated jobs, with a reason, and no others.
 */
#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h> /* slurm_info, slurm_error */

#include "parse.h"
#include "policy.h"
#include "policy_file.h"

typedef struct job_record job_record_t;
extern char *slurm_xstrdup(const char *text);
extern void slurm_xfree(void **text);
/* The configuration in force. Its type belongs to the release that this plugin is built for, and Slurm loads no other. */
extern slurm_conf_t slurm_conf __attribute__((weak));

/* What Slurm looks up (job_submit_prism.map). */
#pragma GCC visibility push(default)
extern const char plugin_name[];
extern const char plugin_type[];
extern const uint32_t plugin_version;
const char plugin_name[] = "Prism: policy and accounting of emulated jobs";
const char plugin_type[] = "job_submit/prism";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;
int init(void);
int fini(void);
int job_submit(job_desc_msg_t *job, uint32_t user, char **message);
int job_modify(job_desc_msg_t *change, job_record_t *job, uint32_t user, char **message);
#pragma GCC visibility pop

int init(void) { return SLURM_SUCCESS; }
int fini(void) { return SLURM_SUCCESS; }
/* A job's owner may write results into its Comment; nothing else here concerns us. */
int job_modify(job_desc_msg_t *change, job_record_t *job, uint32_t user, char **message) { return SLURM_SUCCESS; }

/* --- prism.conf: read again when it has changed --- */

static struct {
    pthread_mutex_t lock;
    char path[4096];
    struct timespec changed;
    off_t size;
    bool known; /* changed and size are those of what was read */
    struct policy policy;
    struct prism_error broken;
} site = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* PRISM_CONFIG of slurmctld, else prism.conf beside slurm.conf, else the one that `make install` knows. */
static void find_path(char *path, size_t size)
{
    const char *named = getenv("PRISM_CONFIG");
    if (named && *named)
        snprintf(path, size, "%s", named);
    else
        policy_file_find(&slurm_conf ? slurm_conf.slurm_conf : NULL, NULL, path, size);
}

static void read_policy(const char *path)
{
    site.broken = (struct prism_error){0};
    if (policy_file_read(path, &site.policy, &site.broken))
        slurm_error("job_submit/prism: %s: jobs that ask for emulation are refused until it is mended", site.broken.text);
    else
        slurm_info("job_submit/prism: policy read from %s", path);
}

/* A file that is not there is a policy without limits. */
static void refresh_policy(void)
{
    char path[4096];
    struct stat now;
    find_path(path, sizeof path);
    if (stat(path, &now)) {
        bool gone = errno == ENOENT || errno == ENOTDIR;
        site.known = false;
        site.policy = (struct policy){0};
        site.broken = (struct prism_error){0};
        if (!gone)
            prism_error_set(&site.broken, PRISM_EXIT_USAGE, "%.200s cannot be read (%s)", path, strerror(errno));
        return;
    }
    if (site.known && !strcmp(path, site.path) && now.st_size == site.size &&
        now.st_mtim.tv_sec == site.changed.tv_sec && now.st_mtim.tv_nsec == site.changed.tv_nsec)
        return;
    read_policy(path);
    strcpy(site.path, path);
    site.changed = now.st_mtim;
    site.size = now.st_size;
    site.known = true;
}

/* --- a job --- */

static int refuse(const char *text, int code, char **message)
{
    char line[1100];
    snprintf(line, sizeof line, "prism: %s", text);
    *message = slurm_xstrdup(line);
    return code;
}

static void replace(char **text, const char *with)
{
    slurm_xfree((void **)text);
    *text = slurm_xstrdup(with);
}

/* A default of the site, where the user named nothing. */
static void fill(char **text, const char *with)
{
    if (*with && (!*text || !**text))
        replace(text, with);
}

/* The physical GPUs that Slurm is really asked for. 0 = none, or in a form that is not counted (--gpus-per-socket). */
static uint64_t physical_gpus(const job_desc_msg_t *job)
{
    uint64_t nodes = job->max_nodes && job->max_nodes < NO_VAL ? job->max_nodes : job->min_nodes;
    uint64_t tasks = job->num_tasks && job->num_tasks < NO_VAL ? job->num_tasks : 1;
    if (!nodes || nodes >= NO_VAL)
        nodes = 1;
    uint64_t most = nodes * parse_slurm_gpus(job->tres_per_node, true, NULL, 0);
    uint64_t others[] = {parse_slurm_gpus(job->tres_per_job, true, NULL, 0),
                         tasks * parse_slurm_gpus(job->tres_per_task, true, NULL, 0)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] > most)
            most = others[i];
    return most;
}

/* slurmctld looks users up itself at this point; the names of those who submit are in its cache of the name service. */
static const char *user_name(uint32_t user, char *buffer, size_t size)
{
    struct passwd entry, *found = NULL;
    return !getpwuid_r(user, &entry, buffer, size, &found) && found ? found->pw_name : NULL;
}

static int emulated(job_desc_msg_t *job, uint32_t user, struct policy_shape *shape, char **message)
{
    const struct policy *p = &site.policy;
    const char *declared = &slurm_conf ? slurm_conf.licenses : NULL;
    char names[4096], text[4096];
    struct prism_error err = {0};
    uint64_t ranks = policy_declared(declared, "prism_rank"), gpus = policy_declared(declared, "prism_gpu");
    bool counted = p->licences != POLICY_LICENCES_NONE, all = p->licences == POLICY_LICENCES_ALL;
    fill(&job->partition, p->default_partition[0] ? p->default_partition : p->partitions);
    fill(&job->qos, p->default_qos);
    fill(&job->reservation, p->default_reservation);
    struct policy_job asked = {.user = user_name(job->user_id < NO_VAL ? job->user_id : user, names, sizeof names),
                               .account = job->account,
                               .partition = job->partition,
                               .ranks = shape->world,
                               .gpus = physical_gpus(job),
                               .rank_licences = counted ? ranks : 0,
                               .gpu_licences = counted ? gpus : 0};
    if (policy_check(p, &asked, &err))
        return refuse(err.text, ESLURM_ACCOUNTING_POLICY, message);
    bool rank = counted && (ranks || all), gpu = counted && (gpus || all);
    if (shape->world && (rank || gpu)) {
        if (policy_licences(job->licenses, shape->world, rank, gpu, text, sizeof text))
            return refuse("--licenses with alternatives (a|b) cannot be joined with the emulation's own: name them with commas",
                          ESLURM_INVALID_LICENSES, message);
        replace(&job->licenses, text);
    }
    if (shape->nodes && !policy_admin_comment(job->admin_comment, shape, text, sizeof text))
        replace(&job->admin_comment, text);
    return SLURM_SUCCESS;
}

int job_submit(job_desc_msg_t *job, uint32_t user, char **message)
{
    struct prism_error err = {0};
    struct policy_shape shape;
    enum policy_asked asked;
    if (policy_read_request(job->spank_job_env, job->spank_job_env_size, &asked, &shape, &err))
        return refuse(err.text, SLURM_ERROR, message);
    if (asked == POLICY_PLAIN)
        return SLURM_SUCCESS;
    pthread_mutex_lock(&site.lock);
    refresh_policy();
    int rc;
    if (site.broken.code) {
        snprintf(err.text, sizeof err.text, POLICY_OFF, site.broken.text);
        rc = refuse(err.text, ESLURM_ACCOUNTING_POLICY, message);
    } else {
        rc = emulated(job, user, &shape, message);
    }
    pthread_mutex_unlock(&site.lock);
    return rc;
}
