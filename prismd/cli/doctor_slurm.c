/* doctor_slurm.c - see doctor_slurm.h. Everything is asked of Slurm's own commands, so that one prism fits all releases. */
#include "doctor_slurm.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "common/file.h"
#include "spank/policy.h"

#define SECONDS  10
#define FILE_MAX (1u << 20)

/* What is known of the cluster while the checks run. */
struct cluster {
    struct bytes config, licences, error; /* `scontrol show config`, `show licenses`; why the first failed */
    unsigned major, minor;                /* Slurm's release here */
    char plugstack[PATH_MAX], line[PATH_MAX]; /* the file, and its line with spank_prism.so; "" = none */
};

/* "Name   = value" of the configuration; "" when it is not there or "(null)". */
static const char *setting(const struct cluster *c, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    out[0] = '\0';
    for (const char *p = (const char *)c->config.data; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *value = p + len;
        if (strncmp(p, name, len) != 0)
            continue;
        value += strspn(value, " ");
        if (*value++ != '=')
            continue;
        value += strspn(value, " ");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        if (strcmp(out, "(null)") == 0)
            out[0] = '\0';
        return out;
    }
    return out;
}

/* Is name one of a list's items? */
static bool lists(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; *p;) {
        size_t item = strcspn(p, ", ");
        if (item == len && strncasecmp(p, name, len) == 0)
            return true;
        p += item + strspn(p + item, ", ");
    }
    return false;
}

/* --- the cluster itself --- */

static void check_controller(struct cluster *c, struct check *k)
{
    char version[64];
    if (!c->config.len) {
        const char *why = command_line(&c->error);
        FOUND(k, "slurmctld does not answer: %.400s", *why ? why : "nothing within ten seconds");
        MEND(k, CHECK_BAD, "start slurmctld; if `scontrol ping` works elsewhere, look at SLURM_CONF, munge and the network here");
        return;
    }
    FOUND(k, "Slurm %s", setting(c, "SLURM_VERSION", version, sizeof(version)));
    sscanf(version, "%u.%u", &c->major, &c->minor);
}

static void check_munge(struct cluster *c, struct check *k)
{
    char info[PATH_MAX], type[64], socket[PATH_MAX + 16] = "";
    struct bytes why = { 0 };
    if (c->config.len && strcmp(setting(c, "AuthType", type, sizeof(type)), "auth/munge") != 0) {
        FOUND(k, "not used: %.60s", type);
        MEND(k, CHECK_WARN, "prismds of several nodes know each other by munge credentials: run munged on the nodes");
        return;
    }
    const char *named = strstr(setting(c, "AuthInfo", info, sizeof(info)), "socket=");
    if (named)
        snprintf(socket, sizeof(socket), "--socket=%.*s", (int)strcspn(named + 7, ","), named + 7);
    const char *argv[] = { "munge", "--no-input", named ? socket : NULL, NULL };
    int code = command_run(argv, SECONDS, NULL, &why);
    if (code == 0) {
        FOUND(k, "munged answers");
    } else {
        FOUND(k, "%.400s", code == 127 ? "the munge command is not installed" : command_line(&why));
        MEND(k, CHECK_BAD, "start munged with the cluster's key (systemctl start munge)");
    }
    bytes_free(&why);
}

/* --- plugins --- */

static void find_line(struct cluster *c, const char *path, int depth)
{
    struct bytes text = { 0 };
    glob_t found;
    char *save = NULL, pattern[PATH_MAX], word[16];
    if (file_read(path, FILE_MAX, &text, NULL) == 0) {
        bytes_put_u8(&text, 0);
        for (char *line = strtok_r((char *)text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            line += strspn(line, " \t");
            if (*line != '#' && strstr(line, "spank_prism.so"))
                snprintf(c->line, sizeof(c->line), "%s", line);
            else if (depth == 0 && sscanf(line, "%15s %4000s", word, pattern) == 2 && strcmp(word, "include") == 0 &&
                     glob(pattern, 0, NULL, &found) == 0) {
                for (size_t i = 0; i < found.gl_pathc; i++)
                    find_line(c, found.gl_pathv[i], 1);
                globfree(&found);
            }
        }
    }
    bytes_free(&text);
}

/* The release a plugin was built for must be Slurm's own, or Slurm does not load it. */
static int check_version(const struct cluster *c, const char *path, struct check *k)
{
    void *plugin = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    const uint32_t *version = plugin ? dlsym(plugin, "plugin_version") : NULL;
    int rc = 0;
    if (!version) {
        FOUND(k, "%.400s", dlerror());
        MEND(k, CHECK_BAD, "install it again (package prism-slurm, or make install), readable for all");
        rc = -1;
    } else if (c->major && ((*version >> 16 & 255) != c->major || (*version >> 8 & 255) != c->minor)) {
        FOUND(k, "%.300s is for Slurm %02u.%02u, this is %02u.%02u", path, *version >> 16 & 255, *version >> 8 & 255, c->major,
              c->minor);
        MEND(k, CHECK_BAD, "build it with SLURM_INCLUDE=<headers of this release> (make deb), on all hosts before slurmctld and "
                           "slurmd start anew");
        rc = -1;
    }
    if (plugin)
        dlclose(plugin);
    return rc;
}

/* Value of name= in plugstack's line. */
static bool argument(const char *line, const char *name, char *out, size_t size)
{
    const char *p = strstr(line, name);
    if (!p)
        return false;
    p += strlen(name);
    snprintf(out, size, "%.*s", (int)strcspn(p, " \t"), p);
    return true;
}

static int check_parts(const struct cluster *c, struct check *k)
{
    char libdir[PATH_MAX] = "", bindir[PATH_MAX] = "", path[PATH_MAX + 32];
    struct bytes version = { 0 };
    argument(c->line, "libdir=", libdir, sizeof(libdir));
    argument(c->line, "bindir=", bindir, sizeof(bindir));
    snprintf(path, sizeof(path), "%s/libprism.so", libdir);
    bool library = access(path, R_OK) == 0;
    if (library)
        snprintf(path, sizeof(path), "%s/prismd", bindir);
    if (!library || access(path, X_OK) != 0) {
        FOUND(k, "%.400s is not there", path);
        MEND(k, CHECK_BAD, "install Prism here, or correct libdir= and bindir= in %.300s", c->plugstack);
        return -1;
    }
    snprintf(path, sizeof(path), "%s/prism", bindir);
    const char *argv[] = { path, "--version", NULL };
    int rc = 0;
    if (command_run(argv, SECONDS, &version, NULL) == 0 && strcmp(command_line(&version), "prism " PRISM_VERSION) != 0) {
        FOUND(k, "jobs run %.300s: %.60s, this is prism " PRISM_VERSION, path, command_line(&version));
        MEND(k, CHECK_WARN, "install the same version on all hosts");
        rc = -1;
    }
    bytes_free(&version);
    return rc;
}

static void check_spank(struct cluster *c, struct check *k)
{
    char path[PATH_MAX];
    setting(c, "PlugStackConfig", c->plugstack, sizeof(c->plugstack));
    if (!c->plugstack[0])
        snprintf(c->plugstack, sizeof(c->plugstack), "plugstack.conf");
    find_line(c, c->plugstack, 0);
    char *at = strchr(c->line, '/');
    if (!at) {
        FOUND(k, "%.400s has no line with spank_prism.so", c->plugstack);
        MEND(k, CHECK_BAD, "add: optional <folder>/spank_prism.so libdir=<folder> bindir=<folder> (examples/plugstack.conf)");
        return;
    }
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(at, " \t"), at);
    if (check_version(c, path, k) == 0 && check_parts(c, k) == 0)
        FOUND(k, "%.480s", path);
}

/* A plugin of PluginDir's folders. Its setting must name it too. */
static void check_listed(struct cluster *c, struct check *k, const char *name, const char *file, const char *without,
                         enum check_result level)
{
    char value[1024], folders[4096], path[PATH_MAX] = "", *save = NULL;
    if (!lists(setting(c, name, value, sizeof(value)), "prism")) {
        FOUND(k, "%s=%.300s", name, value[0] ? value : "(none)");
        MEND(k, level, "%s: add prism to %s in slurm.conf", without, name);
        return;
    }
    setting(c, "PluginDir", folders, sizeof(folders));
    for (char *dir = strtok_r(folders, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        snprintf(path, sizeof(path), "%.3000s/%s", dir, file);
        if (access(path, R_OK) == 0)
            break;
        path[0] = '\0';
    }
    if (!path[0]) {
        FOUND(k, "%s is in none of PluginDir's folders here", file);
        MEND(k, CHECK_BAD, "add its folder to PluginDir in slurm.conf (examples/slurm.conf), or install it on this host");
    } else if (check_version(c, path, k) == 0) {
        FOUND(k, "%.480s", path);
    }
}

static void check_filter(struct cluster *c, struct check *k)
{
    check_listed(c, k, "CliFilterPlugins", "cli_filter_prism.so", "jobs would ask for the full size instead of a few GPUs", CHECK_BAD);
}

static void check_submit(struct cluster *c, struct check *k)
{
    check_listed(c, k, "JobSubmitPlugins", "job_submit_prism.so", "no policy, licences and AdminComment", CHECK_WARN);
}

static void check_policy(struct cluster *c, struct check *k)
{
    char conf[PATH_MAX], path[PATH_MAX + 16];
    struct bytes text = { 0 };
    struct policy policy;
    struct prism_error err = { 0 };
    setting(c, "SLURM_CONF", conf, sizeof(conf));
    char *slash = strrchr(conf, '/');
    snprintf(path, sizeof(path), "%.*s/prism.conf", slash ? (int)(slash - conf) : 0, conf);
    if (access(path, F_OK) != 0)
        FOUND(k, "no %.400s: no limits", path);
    else if (file_read(path, POLICY_FILE_MAX, &text, &err) != 0 || policy_parse((char *)text.data, text.len, &policy, &err) != 0) {
        FOUND(k, "%.200s: %.250s", path, err.text);
        MEND(k, CHECK_BAD, "correct the line: until then emulated jobs are refused");
    } else
        FOUND(k, "%.480s", path);
    bytes_free(&text);
}

/* --- accounting --- */

static void check_database(struct cluster *c, struct check *k)
{
    char type[128];
    struct bytes why = { 0 };
    const char *argv[] = { "sacctmgr", "--noheader", "--parsable2", "list", "cluster", "format=cluster", NULL };
    if (strcmp(setting(c, "AccountingStorageType", type, sizeof(type)), "accounting_storage/slurmdbd") != 0) {
        FOUND(k, "AccountingStorageType=%.100s", type[0] ? type : "(none)");
        MEND(k, CHECK_WARN, "sacct, sreport and prism acct show nothing without slurmdbd");
    } else if (command_run(argv, SECONDS, NULL, &why) != 0) {
        FOUND(k, "slurmdbd does not answer: %.300s", command_line(&why));
        MEND(k, CHECK_WARN, "start slurmdbd; slurmctld keeps what it has to say until then");
    } else
        FOUND(k, "slurmdbd answers");
    bytes_free(&why);
}

static void check_comments(struct cluster *c, struct check *k)
{
    char flags[256];
    if (lists(setting(c, "AccountingStoreFlags", flags, sizeof(flags)), "job_comment"))
        FOUND(k, "AccountingStoreFlags=%.200s", flags);
    else {
        FOUND(k, "the database does not keep comments (AccountingStoreFlags=%.200s)", flags[0] ? flags : "(none)");
        MEND(k, CHECK_WARN, "results of emulated jobs are lost when they end: AccountingStoreFlags=job_comment in slurm.conf");
    }
}

static void check_licences(struct cluster *c, struct check *k)
{
    const char *text = c->licences.data ? (const char *)c->licences.data : "";
    char tres[2048];
    bool rank = strstr(text, "LicenseName=prism_rank "), gpu = strstr(text, "LicenseName=prism_gpu ");
    setting(c, "AccountingStorageTRES", tres, sizeof(tres));
    if (!rank || !gpu) {
        FOUND(k, "%s not declared", rank ? "prism_gpu is" : gpu ? "prism_rank is" : "prism_rank and prism_gpu are");
        MEND(k, CHECK_WARN, "sreport and limits cannot count emulated GPUs: Licenses=prism_rank:1000000,prism_gpu:1000000 in slurm.conf");
    } else if (!lists(tres, "license/prism_rank") || !lists(tres, "license/prism_gpu")) {
        FOUND(k, "declared, but no TRES");
        MEND(k, CHECK_WARN, "add license/prism_rank,license/prism_gpu to AccountingStorageTRES in slurm.conf (slurmctld starts anew)");
    } else
        FOUND(k, "prism_rank and prism_gpu, both TRES");
}

/* --- limits and the job we are in --- */

static void check_limits(struct cluster *c, struct check *k)
{
    char all[256], except[256];
    setting(c, "PropagateResourceLimits", all, sizeof(all));
    setting(c, "PropagateResourceLimitsExcept", except, sizeof(except));
    bool propagated = !lists(all, "NONE") && (except[0] ? !lists(except, "MEMLOCK") : lists(all, "ALL") || lists(all, "MEMLOCK"));
    FOUND(k, propagated ? "jobs get the submitting shell's locked memory" : "jobs have the nodes' own locked memory");
    if (propagated)
        MEND(k, CHECK_WARN, "PropagateResourceLimitsExcept=MEMLOCK,NOFILE,NPROC in slurm.conf, and LimitMEMLOCK=infinity for slurmd");
}

static void check_job(struct cluster *c, struct check *k)
{
    static const char *const needed[] = { "squeue", "scontrol" };
    const char *gpus = getenv("SLURM_JOB_GPUS") ? getenv("SLURM_JOB_GPUS") : getenv("SLURM_STEP_GPUS");
    FOUND(k, "job %.40s, GPUs %.100s%s", getenv("SLURM_JOB_ID"), gpus && *gpus ? gpus : "none",
          getenv("SLURM_PRISM") || getenv("PRISM_WORLD") ? ", emulated" : "");
    if (!gpus || !*gpus)
        MEND(k, CHECK_WARN, "emulation needs a GPU: --gpus-per-node=1 or more");
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!command_exists(needed[i]))
            MEND(k, CHECK_WARN, "%s is not in PATH here (a container?): results do not get into sacct", needed[i]);
}

static const struct {
    const char *name;
    void (*run)(struct cluster *c, struct check *k);
    bool in_job; /* only there */
} table[] = {
    { "Slurm's controller", check_controller, false },
    { "munge", check_munge, false },
    { "spank_prism", check_spank, false },
    { "cli_filter/prism", check_filter, false },
    { "job_submit/prism", check_submit, false },
    { "policy", check_policy, false },
    { "accounting", check_database, false },
    { "comments", check_comments, false },
    { "licences", check_licences, false },
    { "limits in jobs", check_limits, false },
    { "this job", check_job, true },
};

/* Slurm's commands try for a minute to find a configuration that is not there. */
static bool has_configuration(void)
{
    static const char *const places[] = { "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf",
                                          "/usr/local/etc/slurm.conf" };
    const char *named = getenv("SLURM_CONF");
    if (named && *named)
        return access(named, R_OK) == 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (access(places[i], R_OK) == 0)
            return true;
    return false;
}

static enum doctor_place find_place(void)
{
    char name[256] = "", option[300];
    if (getenv("SLURM_JOB_ID"))
        return PLACE_JOB;
    gethostname(name, sizeof(name) - 1);
    name[strcspn(name, ".")] = '\0';
    snprintf(option, sizeof(option), "NodeHostName=%s ", name);
    const char *argv[] = { "scontrol", "--oneliner", "show", "nodes", NULL };
    struct bytes nodes = { 0 };
    bool compute = command_run(argv, SECONDS, &nodes, NULL) == 0 && strstr((char *)nodes.data, option);
    bytes_free(&nodes);
    return compute ? PLACE_COMPUTE : PLACE_LOGIN;
}

size_t doctor_slurm(struct check *checks, size_t room, enum doctor_place *place)
{
    static const char *const show_config[] = { "scontrol", "show", "config", NULL };
    static const char *const show_licences[] = { "scontrol", "--oneliner", "show", "licenses", NULL };
    struct cluster c = { 0 };
    size_t n = 0;
    *place = PLACE_ALONE;
    if (!has_configuration() || !command_exists("scontrol"))
        return 0;
    bool answers = command_run(show_config, SECONDS, &c.config, &c.error) == 0;
    if (answers)
        command_run(show_licences, SECONDS, &c.licences, NULL);
    else
        bytes_clear(&c.config);
    *place = answers ? find_place() : getenv("SLURM_JOB_ID") ? PLACE_JOB : PLACE_ALONE;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]) && n < room; i++) {
        /* Without an answer only what does not rest on the configuration. */
        if ((table[i].in_job && *place != PLACE_JOB) || (!answers && i > 1))
            continue;
        checks[n] = (struct check){ .name = table[i].name };
        table[i].run(&c, &checks[n++]);
    }
    bytes_free(&c.config);
    bytes_free(&c.licences);
    bytes_free(&c.error);
    return n;
}
