#include "step_policy.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "parse.h"
#include "policy_file.h"

/* "cpu=8,mem=1G,gres/gpu=2,gres/gpu:h200=2": at least one, so that a job without GPUs fails for its own reason. */
static uint64_t allocated_gpus(const char *tres)
{
    static const char name[] = "gres/gpu=";
    for (const char *p = tres; p && *p; p += strcspn(p, ","), p += *p == ',') {
        uint64_t n;
        char count[24];
        if (strncmp(p, name, sizeof name - 1))
            continue;
        p += sizeof name - 1;
        snprintf(count, sizeof count, "%.*s", (int)strcspn(p, ","), p);
        return !parse_number(count, 1, UINT32_MAX, &n, NULL) ? n : 1;
    }
    return 1;
}

static int check_against(const struct policy *p, const job_info_t *job, uint32_t world, struct prism_error *err)
{
    const struct passwd *user = getpwuid(job->user_id);
    const struct policy_job asked = {.user = user ? user->pw_name : NULL,
                                     .account = job->account,
                                     .partition = job->partition,
                                     .ranks = world,
                                     .gpus = allocated_gpus(job->tres_alloc_str),
                                     .is_step = true,
                                     .is_plain = !job->admin_comment || !strstr(job->admin_comment, "prism:world=")};
    return policy_check(p, &asked, err);
}

int step_policy_check(uint32_t number, uint32_t world, const char *slurm_conf, const char *site_config, struct prism_error *err)
{
    char path[4096];
    struct policy p;
    struct prism_error why = {0};
    job_info_msg_t *jobs = NULL;
    policy_file_find(slurm_conf, site_config, path, sizeof path);
    if (access(path, F_OK))
        return 0;
    if (policy_file_read(path, &p, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, POLICY_OFF, why.text);
    if (!policy_limits_steps(&p))
        return 0;
    if (slurm_load_job(&jobs, number, SHOW_DETAIL) || !jobs || !jobs->record_count)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "this site limits emulation, and slurmctld does not tell what job %u is: %s", number,
                               slurm_strerror(errno));
    int rc = check_against(&p, &jobs->job_array[0], world, err);
    slurm_free_job_info_msg(jobs);
    return rc;
}
