/* cli_filter.c - cli_filter_prism.so: runs in srun, sbatch and salloc once the options are read, and turns the request for
 * the emulated job into one for the few nodes that do the work.
 *
 * Slurm ships no headers for cli_filter plugins; what is declared here is exported by every client since 20.11. The
 * options themselves belong to spank_prism.so and are read back through spank_option_get.
 */
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

#include "client.h"
#include "config.h"
#include "options.h"
#include "script.h"
#include "shape.h"
#include "step_policy.h"

typedef struct slurm_opt_s slurm_opt_t;
extern char *slurm_option_get(slurm_opt_t *opt, const char *name); /* xmalloc'ed; small, left to the client's exit */
extern int slurm_option_set(slurm_opt_t *opt, const char *name, const char *value, bool early);
extern bool slurm_option_isset(slurm_opt_t *opt, const char *name);
extern bool slurm_option_reset(slurm_opt_t *opt, const char *name);
extern bool slurm_option_set_by_cli(slurm_opt_t *opt, int optval);
extern int slurm_process_option(slurm_opt_t *opt, int optval, const char *arg, bool set_by_env, bool early_pass) __attribute__((weak));
extern char *spank_option_get(char *optname);
extern slurm_conf_t slurm_conf __attribute__((weak));
extern int error_exit __attribute__((weak)); /* the client's exit code when a plugin refuses */

/* What Slurm looks up (cli_filter_prism.map). */
#pragma GCC visibility push(default)
extern const char plugin_name[];
extern const char plugin_type[];
extern const uint32_t plugin_version;
const char plugin_name[] = "Prism: requests for emulated jobs";
const char plugin_type[] = "cli_filter/prism";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;
int init(void);
int fini(void);
int cli_filter_p_setup_defaults(slurm_opt_t *opt, bool early);
int cli_filter_p_pre_submit(slurm_opt_t *opt, int offset);
void cli_filter_p_post_submit(int offset, uint32_t job, uint32_t step);
#pragma GCC visibility pop

int init(void) { return SLURM_SUCCESS; }
int fini(void) { return SLURM_SUCCESS; }
int cli_filter_p_setup_defaults(slurm_opt_t *opt, bool early) { return SLURM_SUCCESS; }

/* --- the shell of salloc: a child of that, with the variables of the allocation --- */

static int get_variable(void *ctx, const char *name, char *value, size_t size)
{
    const char *text = getenv(name);
    if (text)
        snprintf(value, size, "%s", text);
    return !text ? 0 : strlen(text) < size ? 1 : -1;
}

static void set_variable(void *ctx, const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* In the child, after salloc has put Slurm's variables into its environment and before it runs the command. */
static void show_job(void)
{
    const struct script_environment e = {get_variable, set_variable, NULL};
    if (getenv(CLIENT_PACKED_VARIABLE) && getenv("SLURM_JOB_ID") && !getenv(CLIENT_REAL_VARIABLE))
        script_show_job(&e);
}

void cli_filter_p_post_submit(int offset, uint32_t job, uint32_t step)
{
    if (!strcmp(program_invocation_short_name, "salloc"))
        pthread_atfork(NULL, NULL, show_job);
}

/* One line on the user's terminal; the client then ends with 255, as for every option that Slurm itself refuses. */
static int refuse(const char *text)
{
    slurm_error("prism: %s", text);
    if (&error_exit)
        error_exit = 255;
    return SLURM_ERROR;
}

/* spank_option_get answers "set" or "unset" for options that may stand without a value. */
static int read_command_line(struct options *o, struct prism_error *err)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];
        char name[64];
        snprintf(name, sizeof name, "%s", row->name);
        const char *text = spank_option_get(name);
        if (!text || (row->takes != OPTION_REQUIRED && !strcmp(text, "unset")))
            continue;
        if (row->takes != OPTION_REQUIRED && !strcmp(text, "set"))
            text = NULL;
        if (options_set(o, (enum option_id)i, text, OPTION_FROM_COMMAND_LINE, err))
            return -1;
    }
    return 0;
}

/* The leading number of an option ("4", "1024-2048", "1-0" when unset); 0 when it has none. */
static uint32_t number_of(slurm_opt_t *opt, const char *name)
{
    const char *text = slurm_option_get(opt, name);
    if (!text || !isdigit((unsigned char)*text))
        return 0;
    unsigned long value = strtoul(text, NULL, 10);
    return value < UINT32_MAX ? (uint32_t)value : 0;
}

static int forced(const char *variable, uint32_t *value, struct prism_error *err)
{
    const char *text = getenv(variable);
    uint64_t n;
    struct prism_error why = {0};
    if (!text || !*text)
        return 0;
    if (parse_number(text, 1, 100000, &n, &why))
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s: %s", variable, why.text);
    *value = (uint32_t)n;
    return 0;
}

/* Options that Slurm fills from the enclosing job's variables are not the user's words inside an allocation. */
static bool said(slurm_opt_t *opt, const char *name, int letter, bool inside)
{
    return inside && letter ? slurm_option_set_by_cli(opt, letter) : slurm_option_isset(opt, name);
}

/* What a batch script's environment says is the logical job; this is the allocation. */
static uint32_t real_number(const char *name)
{
    char *replaced = client_real(name);
    const char *text = replaced ? replaced : getenv(name);
    uint32_t value = text && atoi(text) > 0 ? (uint32_t)atoi(text) : 0;
    free(replaced);
    return value;
}

static uint32_t variable_number(const char *name)
{
    const char *text = getenv(name);
    return text && atoi(text) > 0 ? (uint32_t)atoi(text) : 0;
}

/* A step of a job that Prism has shaped: SLURM_NTASKS and the like speak of one of both, never of the step. */
static bool is_shaped(void) { return getenv("SLURM_JOB_ID") && getenv(CLIENT_PACKED_VARIABLE) && getenv("PRISM_WORLD"); }

static void read_job(struct shape_request *r)
{
    r->earlier_world = variable_number("PRISM_WORLD");
    r->earlier_nodes = variable_number("PRISM_LOGICAL_NODES");
    r->earlier_tasks = variable_number("PRISM_TASKS");
    if (!r->earlier_nodes || !r->earlier_tasks)
        r->earlier_nodes = r->earlier_tasks = 0;
}

static int read_request(slurm_opt_t *opt, struct shape_request *r, char *gpu_type, size_t type_size, struct prism_error *err)
{
    bool inside = getenv("SLURM_JOB_ID") != NULL, shaped = is_shaped();
    if (inside && !(r->allocation_nodes = real_number("SLURM_JOB_NUM_NODES")))
        r->allocation_nodes = 1;
    if (said(opt, "nodes", 'N', inside))
        r->nodes = number_of(opt, "nodes");
    if (said(opt, "ntasks", 'n', shaped))
        r->tasks = number_of(opt, "ntasks");
    /* The script's is as good as the job's own; the small allocation's (a shell of salloc) is not the user's. */
    if ((!shaped || getenv(CLIENT_REAL_VARIABLE)) && slurm_option_isset(opt, "ntasks-per-node"))
        r->tasks_per_node = number_of(opt, "ntasks-per-node");
    if (slurm_option_isset(opt, "cpus-per-task"))
        r->cpus_per_task = number_of(opt, "cpus-per-task");
    if (shaped)
        read_job(r);
    if (!inside) {
        r->gpus_per_node = parse_slurm_gpus(slurm_option_get(opt, "gpus-per-node"), false, gpu_type, type_size);
        if (!r->gpus_per_node)
            r->gpus_per_node = parse_slurm_gpus(slurm_option_get(opt, "gres"), true, gpu_type, type_size);
        r->gpus = parse_slurm_gpus(slurm_option_get(opt, "gpus"), false, NULL, 0);
    }
    return forced("PRISM_NODES", &r->forced_nodes, err) ||
                   forced("PRISM_DEVICES_PER_NODE", &r->forced_devices_per_node, err)
               ? -1
               : 0;
}

/* A step of another size than its job: which ranks and dimensions there are is another question there, so what the job
 * said of them does not count. */
static int drop_inherited(const struct shape_request *r, struct options *o, struct prism_error *err)
{
    static const enum option_id of_the_world[] = {OPTION_SANDBOX, OPTION_LAYOUT, OPTION_FOLD};
    uint32_t world = 0;
    if (!r->earlier_world)
        return 0;
    if (shape_world(r, o, &world, err))
        return -1;
    for (size_t i = 0; i < sizeof of_the_world / sizeof *of_the_world && world != r->earlier_world; i++) {
        enum option_id id = of_the_world[i];
        const char *of_job = getenv(option_table[id].variable);
        if (o->text[id] && of_job && !strcmp(o->text[id], of_job)) {
            free(o->text[id]);
            o->text[id] = NULL;
            o->source[id] = OPTION_UNSET;
            unsetenv(option_table[id].variable);
        }
    }
    return 0;
}

static void set_number(slurm_opt_t *opt, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    slurm_option_set(opt, name, text, false);
}

static void reset(slurm_opt_t *opt, const char *name)
{
    if (slurm_option_isset(opt, name))
        slurm_option_reset(opt, name);
}

static void rewrite_gpus(slurm_opt_t *opt, const struct shape *s, const char *gpu_type, bool inside)
{
    static const char *const of_the_full_job[] = {"gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "ntasks-per-gpu"};
    for (size_t i = 0; i < sizeof of_the_full_job / sizeof *of_the_full_job; i++)
        reset(opt, of_the_full_job[i]);
    const char *gres = slurm_option_get(opt, "gres");
    if (gres && parse_slurm_gpus(gres, true, NULL, 0)) {
        char *rest = parse_slurm_gres_rest(gres);
        slurm_option_reset(opt, "gres");
        if (rest)
            slurm_option_set(opt, "gres", rest, false);
        free(rest);
    }
    if (inside)
        return; /* the step gets the GPUs of its job */
    char text[96];
    snprintf(text, sizeof text, "%s%s%u", gpu_type, *gpu_type ? ":" : "", s->devices_per_node);
    slurm_option_set(opt, "gpus-per-node", text, false);
}

/* Of a step daemon that was killed srun hears nothing, and would wait for its task for ever; the daemons of a run end together. */
static void limit_wait(slurm_opt_t *opt)
{
    static const uint32_t seconds = 60; /* after the first has ended */
    bool is_srun = !strcmp(program_invocation_short_name, "srun"); /* sbatch has another --wait */
    if (is_srun && !slurm_option_isset(opt, "wait"))
        set_number(opt, "wait", seconds);
}

static void rewrite_request(slurm_opt_t *opt, const struct shape *s, const char *gpu_type, bool inside)
{
    static const char *const spread[] = {"ntasks-per-core", "ntasks-per-socket", "cores-per-socket", "sockets-per-node"};
    for (size_t i = 0; i < sizeof spread / sizeof *spread; i++)
        reset(opt, spread[i]);
    set_number(opt, "nodes", s->physical_nodes);
    set_number(opt, "ntasks", s->physical_nodes);
    set_number(opt, "ntasks-per-node", 1);
    if (slurm_option_isset(opt, "cpus-per-task") || (!inside && s->cpus_per_task > 1)) {
        if (inside)
            slurm_option_reset(opt, "cpus-per-task"); /* all of the job's */
        else
            set_number(opt, "cpus-per-task", s->cpus_per_task);
    }
    rewrite_gpus(opt, s, gpu_type, inside);
    limit_wait(opt);
}

/* The user's own comment stays in front (docs/formats/accounting.md). */
static void write_comment(slurm_opt_t *opt, const struct options *o, const struct shape *s)
{
    const struct policy_shape shape = client_shape(o, s);
    char text[4096];
    if (!policy_admin_comment(slurm_option_get(opt, "comment"), &shape, text, sizeof text))
        slurm_option_set(opt, "comment", text, false);
}

/* Slurm's default for a job's name is the command's or the script's, which it works out later than we need it: the first
 * argument behind the options, where getopt has stopped. malloc'ed; NULL when there is none (a shell of salloc). */
static char *command_name(void)
{
    char *name = NULL, *line = NULL;
    size_t room = 0;
    FILE *f = fopen("/proc/self/cmdline", "r");
    for (int i = 0; f && getdelim(&line, &room, 0, f) > 0; i++) {
        if (i != optind || !*line)
            continue;
        const char *slash = strrchr(line, '/');
        name = strdup(slash ? slash + 1 : line);
        break;
    }
    if (f)
        fclose(f);
    free(line);
    return name;
}

/* A step of a job is called prism:PROGRAM where the user has not named it, so that sacct tells it from the plain ones. srun takes
 * only a name of the command line for the step's, and puts it into SLURM_JOB_NAME, which the step gets back (spank_stepd.c).
 * srun by itself is a job and its step in one: those keep the name that scripts look for. */
static void name_step(slurm_opt_t *opt)
{
    char *command = command_name(), *name = NULL;
    const char *of_job = getenv("SLURM_JOB_NAME");
    unsetenv(CLIENT_JOB_NAME_VARIABLE);
    if (command && of_job && &slurm_process_option && !slurm_option_set_by_cli(opt, 'J') && asprintf(&name, "prism:%s", command) > 0) {
        setenv(CLIENT_JOB_NAME_VARIABLE, of_job, 1);
        slurm_process_option(opt, 'J', name, false, false);
    }
    free(name);
    free(command);
}

/* A job's tasks run side by side: each of an array has a trace of its own. malloc'ed; takes path over. */
static char *of_array_task(char *path)
{
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    char *own = NULL;
    if (!path || !task || asprintf(&own, "%s_%.20s", path, task) < 0)
        return path;
    free(path);
    return own;
}

/* prism-trace/NAME in the submit directory, NAME the job's: the same command finds its trace again, and `prism run` takes
 * the same folder. malloc'ed. */
static char *default_trace(slurm_opt_t *opt, bool inside)
{
    const char *given = slurm_option_get(opt, "job-name"), *folder = inside ? getenv("SLURM_SUBMIT_DIR") : NULL;
    char *command = given && *given && !inside ? NULL : command_name(), *path = NULL;
    static const char under[] = "prism-trace/";
    char file[256];
    snprintf(file, sizeof file, "%s%.200s", under, command && *command ? command : given && *given ? given : "job");
    for (char *p = file + sizeof under - 1; *p; p++)
        if ((unsigned char)*p <= 32 || *p == '/')
            *p = '_';
    free(command);
    if (!folder)
        return client_absolute(file);
    return asprintf(&path, "%s/%s", folder, file) < 0 ? NULL : path;
}

/* The trace of a step: what the step says; its job's; the default. */
static char *find_trace(slurm_opt_t *opt, struct options *o, bool inside)
{
    const char *of_job = is_shaped() ? getenv("PRISM_TRACE") : NULL;
    bool default_of_job = of_job && getenv(CLIENT_DEFAULT_TRACE_VARIABLE);
    const char *text = o->text[OPTION_TRACE];
    if (!of_job || (text && strcmp(text, of_job)))
        return text ? NULL : default_trace(opt, inside);
    char *trace = of_array_task(strdup(of_job));
    free(o->text[OPTION_TRACE]);
    o->text[OPTION_TRACE] = default_of_job ? NULL : trace;
    return default_of_job ? trace : NULL;
}

static int emulate(slurm_opt_t *opt, struct options *o, struct prism_error *err)
{
    struct shape_request r = {0};
    struct shape s;
    char gpu_type[64] = "";
    bool inside = getenv("SLURM_JOB_ID") != NULL;
    const char *conf = &slurm_conf ? slurm_conf.slurm_conf : NULL;
    if (read_request(opt, &r, gpu_type, sizeof gpu_type, err) || drop_inherited(&r, o, err) || shape_plan(&r, o, &s, err))
        return -1;
    uint32_t job = slurm_option_isset(opt, "jobid") ? number_of(opt, "jobid") : variable_number("SLURM_JOB_ID");
    if (job && step_policy_check(job, s.world, conf, getenv(CLIENT_SITE_CONFIG_VARIABLE), err))
        return -1;
    rewrite_request(opt, &s, gpu_type, inside);
    if (!inside)
        write_comment(opt, o, &s);
    char *trace = find_trace(opt, o, inside);
    if (inside)
        name_step(opt);
    client_export(o, &s, trace);
    free(trace);
    if (!inside)
        slurm_info("prism: %u ranks (%u nodes x %u GPUs) will be emulated on %u x %u GPUs", s.world, s.nodes,
                   s.gpus_per_node, s.physical_nodes, s.devices_per_node);
    return 0;
}

/* A plain step in a batch script: the script's variables, which Slurm takes for options, speak of the logical job. */
static void leave_alone(slurm_opt_t *opt)
{
    static const char *const follow[][2] = {{"ntasks-per-node", "SLURM_NTASKS_PER_NODE"}, {"gpus-per-node", "SLURM_GPUS_PER_NODE"}};
    client_export_off();
    if (!getenv(CLIENT_REAL_VARIABLE))
        return;
    for (size_t i = 0; i < sizeof follow / sizeof *follow; i++) {
        const char *value = slurm_option_get(opt, follow[i][0]), *logical = getenv(follow[i][1]);
        if (!value || !logical || strcmp(value, logical))
            continue;
        char *real = client_real(follow[i][1]);
        slurm_option_reset(opt, follow[i][0]);
        if (real && i)
            slurm_option_set(opt, follow[i][0], real, false);
        free(real);
    }
    if (!slurm_option_set_by_cli(opt, 'N'))
        set_number(opt, "nodes", real_number("SLURM_JOB_NUM_NODES"));
    if (!slurm_option_set_by_cli(opt, 'n'))
        slurm_option_reset(opt, "ntasks");
    client_restore_real();
}

/* Options that wait for --prism-emulate: said once, not refused (a batch script may have them for its steps). */
static void mention_idle_options(const struct options *o)
{
    for (int i = 0; i < OPTION_COUNT && !o->text[OPTION_EMULATE]; i++) {
        if (o->source[i] != OPTION_FROM_COMMAND_LINE)
            continue;
        slurm_info("prism: --%s does nothing without --prism-emulate", option_table[i].name);
        return;
    }
}

/* config= of plugstack.conf, else prism.conf beside slurm.conf if it is there (job_submit.c looks there, too), else "". */
static void find_config(char *path, size_t size)
{
    const char *named = getenv(CLIENT_SITE_CONFIG_VARIABLE), *conf = &slurm_conf ? slurm_conf.slurm_conf : NULL;
    const char *slash = conf ? strrchr(conf, '/') : NULL;
    snprintf(path, size, "%s", named ? named : "");
    if (named || !slash)
        return;
    snprintf(path, size, "%.*s/prism.conf", (int)(slash - conf), conf);
    if (access(path, F_OK))
        *path = 0;
}

/* Fills o with what counts. 1: emulate, 0: leave alone, -1: refused. The variables are looked at only when emulation was
 * asked for: a stray PRISM_ variable must not stand in the way of other jobs. */
static int read_options(struct options *o, struct prism_error *err)
{
    const char *variable = getenv(option_table[OPTION_EMULATE].variable);
    char flag[] = "prism-scratch";
    bool loaded = spank_option_get(flag) != NULL; /* a registered flag answers "set" or "unset" */
    if (!loaded) {
        if (variable && *variable && strcmp(variable, "0"))
            slurm_error("prism: PRISM_EMULATE does nothing: spank_prism.so is not in plugstack.conf, or off");
        return 0;
    }
    if (read_command_line(o, err))
        return -1;
    if (!options_emulate(o) && (o->text[OPTION_EMULATE] || !variable || !*variable)) {
        mention_idle_options(o);
        return 0;
    }
    char config[4096];
    find_config(config, sizeof config);
    if (options_read_environment(o, err) || config_read(o, config, err))
        return -1;
    return options_emulate(o);
}

static int refuse_kind(slurm_opt_t *opt, int offset, struct prism_error *err)
{
    if (offset > 0 || getenv("SLURM_HET_SIZE"))
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                               "--prism-emulate works on whole jobs, not on parts of a heterogeneous one");
    if (slurm_option_isset(opt, "multi-prog"))
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                               "--prism-emulate needs one program for all ranks: --multi-prog is not supported; start different "
                               "programs from one script that looks at SLURM_PROCID, or say --prism-emulate=0 for this step");
    return 0;
}

/* Slurm itself would only say that the configuration is not available. */
static int refuse_logical_nodes(slurm_opt_t *opt, struct prism_error *err)
{
    static const char *const lists[] = {"nodelist", "exclude"};
    const char *base = getenv("PRISM_NODE_BASE");
    for (size_t i = 0; base && *base && is_shaped() && i < sizeof lists / sizeof *lists; i++) {
        const char *list = slurm_option_isset(opt, lists[i]) ? slurm_option_get(opt, lists[i]) : NULL;
        if (list && strstr(list, base))
            return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                                   "--%s=%.80s names emulated nodes, and a step cannot choose among these: leave it out (-N and -n "
                                   "take them from the first one on), or look at SLURM_NODEID or SLURM_PROCID in the program",
                                   lists[i], list);
    }
    return 0;
}

int cli_filter_p_pre_submit(slurm_opt_t *opt, int offset)
{
    struct options o = {0};
    struct prism_error err = {0};
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv(CLIENT_FILTERED_VARIABLE, pid, 1);
    int rc = read_options(&o, &err);
    if (rc >= 0 && refuse_logical_nodes(opt, &err))
        rc = -1;
    if (slurm_option_isset(opt, "interactive")) {
        /* The shell of salloc with use_interactive_step: a step that slurmstepd shows the job; its own steps are emulated. */
        rc = rc < 0 ? rc : 0;
        client_restore_real();
    } else if (!rc) {
        leave_alone(opt);
    } else if (rc > 0) {
        rc = refuse_kind(opt, offset, &err) || emulate(opt, &o, &err) ? -1 : 0;
    }
    options_clear(&o);
    return rc < 0 ? refuse(err.text) : SLURM_SUCCESS;
}
