/* spawn.c - fork + exec of the program as a logical rank, with the identity that the frameworks look for. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/names.h"
#include "prismd/ranks/child.h"
#include "prismd/ranks/container.h"
#include "prismd/folding/folding.h"
#include "prismd/ranks/hosts.h"
#include "prismd/place.h"
#include "prismd/pmix/pmix.h"
#include "prismd/ranks/rank.h"
#include "prismd/ranks/scratch.h"
#include "prismd/ranks/starter.h"
#include "prismd/capture/settling.h"
#include "prismd/store.h"

extern char **environ;

static void set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

/* Prism's own variables are for us; the program does not see them. */
static void drop_prism_variables(void)
{
    static const char *const names[] = {
        "PRISM_LAUNCH",     "PRISM_LAUNCH_PID", "PRISM_PROGRAM_EXE",   "PRISM_PRISMD",  "PRISM_LIBRARY",
        "PRISM_CONFIG",     "PRISM_WORLD",      "PRISM_LOGICAL_NODES", "PRISM_NODES",   "PRISM_NODE_ID",
        "PRISM_NODELIST",   "PRISM_STEP_ID",    "PRISM_EMULATE",       "PRISM_SANDBOX", "PRISM_ASSISTANTS",
        "PRISM_PHASE",      "PRISM_TRACE",      "PRISM_GPUS_PER_NODE", "PRISM_LAYOUT",  "PRISM_FOLD",
        "PRISM_SLICES",     "PRISM_ITERATIONS", "PRISM_PAYLOAD",       "PRISM_NETWORK", "PRISM_SCRATCH",
        "PRISM_REPORT",     "PRISM_RUNNABLE",   "PRISM_QUEUES",   "PRISM_STAGING",       "PRISM_ON_DIVERGENCE",
        "PRISM_DEVICES_PER_NODE", "PRISM_LINK_SECONDS", "PRISM_PREFETCH", "PRISM_ASSISTANT_MEMORY",
        "PRISM_SWITCHING", "PRISM_HOST_POOL", "PRISM_HOST_RESERVE", "PRISM_TEST_MEMORY", "PRISM_SPILL", "PRISM_DEVICE_MEMORY", "PRISM_CONTEXT_BYTES", "PRISM_EVICTION_SEED", "PRISM_BALLAST",
        "PRISM_ACCOUNTING_SECONDS", "PRISM_STALL_SECONDS", "PRISM_PLUGIN_VERSION",
        "PRISM_ITERATION_RANGE", "PRISM_SCRATCH_BYTES", "PRISM_TASKS", "PRISM_CPUS_PER_TASK", "PRISM_TRACE_DEFAULT", "PRISM_NODE_BASE", "PRISM_NODE_COUNT", "PRISM_FILTERED",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static void set_if_there(const char *name, const char *value)
{
    if (getenv(name))
        setenv(name, value, 1);
}

/* Names of logical nodes: what the program's library answers to gethostname and uname, and looks up (preload/names.c). */
static void set_names(const struct daemon *d, uint32_t node, uint32_t nodes)
{
    static const char *const own[] = {"SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"};
    static const char *const lists[] = {"SLURM_NODELIST", "SLURM_STEP_NODELIST"};
    const struct conf *c = d->conf;
    if (!c->node_base)
        return;
    uint32_t all = c->node_count > nodes ? c->node_count : nodes;
    char name[NAMES_NODE_MAX], list[NAMES_LIST_MAX];
    char *hosts = hosts_of_nodes(d); /* before this process has another name: the library is in it, too */
    names_node(c->node_base, all, node, name);
    setenv("PRISM_HOSTNAME", name, 1);
    setenv("PRISM_NODE_BASE", c->node_base, 1);
    set_number("PRISM_NODE_COUNT", all);
    setenv("PRISM_NODE_HOSTS", hosts, 1);
    free(hosts);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        set_if_there(own[i], name);
    names_list(c->node_base, all, nodes, list);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        set_if_there(lists[i], list);
    names_list(c->node_base, all, all, list);
    set_if_there("SLURM_JOB_NODELIST", list);
}

/* A launcher's task is its node's; else every rank is a task. */
static void set_slurm_identity(const struct daemon *d, uint32_t rank)
{
    const struct conf *c = d->conf;
    uint32_t nodes = (c->world + c->gpus_per_node - 1) / c->gpus_per_node;
    bool launcher = c->tasks < c->world;
    uint32_t tasks = launcher ? nodes : c->world, each = launcher ? 1 : (c->world + nodes - 1) / nodes;
    char text[32];
    set_number("SLURM_PROCID", launcher ? rank / c->gpus_per_node : rank);
    set_number("SLURM_LOCALID", launcher ? 0 : rank % c->gpus_per_node);
    set_number("SLURM_NODEID", rank / c->gpus_per_node);
    set_number("SLURM_NTASKS", tasks);
    set_number("SLURM_NPROCS", tasks);
    set_number("SLURM_NNODES", nodes);
    set_number("SLURM_JOB_NUM_NODES", c->node_count > nodes ? c->node_count : nodes);
    set_number("SLURM_STEP_NUM_TASKS", tasks);
    set_number("SLURM_STEP_NUM_NODES", nodes);
    snprintf(text, sizeof text, "%u", each);
    set_if_there("SLURM_NTASKS_PER_NODE", text);
    names_per_node(each, nodes, text);
    set_if_there("SLURM_TASKS_PER_NODE", text);
    set_if_there("SLURM_STEP_TASKS_PER_NODE", text);
    if (c->cpus_per_task)
        set_number("SLURM_CPUS_PER_TASK", c->cpus_per_task);
    set_names(d, rank / c->gpus_per_node, nodes);
}

/* "first,first+1,...": n devices of a node of `all`, going round. */
static void set_list(const char *name, uint32_t first, uint32_t n, uint32_t all)
{
    char text[4096];
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n && at < sizeof text - 16; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u", i ? "," : "", (first + i) % all);
    setenv(name, text, 1);
}

/* The program sees a whole node's devices, its library maps them to the one that is there (preload/cuda/device.h). Variables that
 * name this small allocation's devices become what Slurm sets on the emulated cluster; those that are not set stay so. */
static void set_devices(const struct rank *r)
{
    static const char *const masks[] = {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES"};
    static const char *const whole[] = {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS"};
    const struct conf *c = r->daemon->conf;
    const char *per_task = getenv("SLURM_GPUS_PER_TASK"), *mask;
    uint32_t all = c->gpus_per_node, own = per_task ? (uint32_t)strtoul(per_task, NULL, 10) : 0;
    uint32_t first = own ? r->number % all * own : 0;
    setenv("PRISM_DEVICE", c->devices[r->device], 1);
    set_number("PRISM_LOGICAL_DEVICES", all);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        if ((mask = getenv(masks[i])) && *mask)
            set_list(masks[i], first, own && own < all ? own : all, all);
        else
            unsetenv(masks[i]);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (getenv(whole[i]))
            set_list(whole[i], 0, all, all);
    if (getenv("SLURM_GPUS_ON_NODE"))
        set_number("SLURM_GPUS_ON_NODE", all);
}

/* In capture the program's NVTX ranges are told to the library if the user has named one, unless he has a tool of his own for them. The value is in the environment
 * that later phases take from the trace. */
static void set_injection(const struct rank *r, const char *library)
{
    static const char name[] = "NVTX_INJECTION64_PATH";
    const char *before = getenv(name), *base = before ? strrchr(before, '/') : NULL;
    const struct conf *c = r->daemon->conf;
    bool ours = before && (!strcmp(base ? base + 1 : before, "libprism.so") || !strncmp(before, "/proc/self/fd/", 14));
    if (before && !ours) {
        if (r->daemon->phase == PHASE_CAPTURE && c->iteration_range && !(r->number % c->gpus_per_node))
            log_warn("%s is set: ranges are not told to Prism, and PRISM_ITERATION_RANGE=%s is without effect", name, c->iteration_range);
        return;
    }
    if (r->daemon->phase == PHASE_CAPTURE && c->iteration_range)
        setenv(name, library, 1);
    else
        unsetenv(name);
}

/* The library in front of the user's own. A descriptor reaches it whatever the root is, and is kept open for that; elsewhere
 * the path, as programs close descriptors in their children. */
static void set_preload(const struct rank *r)
{
    const struct conf *c = r->daemon->conf;
    const char *before = getenv("LD_PRELOAD"), *rest = before ? before : "";
    char library[PATH_MAX], preload[8192];
    size_t len = strlen(c->library);
    snprintf(library, sizeof library, "%s", c->library);
    int fd = container_entered(c) ? open(c->library, O_RDONLY) : -1, high = fd < 0 ? -1 : fcntl(fd, F_DUPFD, 100);
    if (high >= 0)
        snprintf(library, sizeof library, "/proc/self/fd/%d", high);
    if (fd >= 0)
        close(fd);
    set_injection(r, library);
    if (!strncmp(rest, c->library, len) && (!rest[len] || rest[len] == ':'))
        rest += len + (rest[len] == ':'); /* Slurm's task had it */
    else if (strstr(rest, c->library))
        return;
    snprintf(preload, sizeof preload, "%s%s%s", library, *rest ? ":" : "", rest);
    setenv("LD_PRELOAD", preload, 1);
}

static void set_identity(struct rank *r)
{
    const struct conf *c = r->daemon->conf;
    uint32_t local = r->number % c->gpus_per_node;
    uint32_t node = r->number / c->gpus_per_node;
    uint32_t on_node = c->world - node * c->gpus_per_node;
    drop_prism_variables();
    set_number("RANK", r->number);
    set_number("WORLD_SIZE", c->world);
    set_number("LOCAL_RANK", local);
    set_number("LOCAL_WORLD_SIZE", on_node < c->gpus_per_node ? on_node : c->gpus_per_node);
    set_number("GROUP_RANK", node);
    set_number("NODE_RANK", node);
    setenv("MASTER_ADDR", store_host(r->daemon->store), 1);
    set_number("MASTER_PORT", store_port(r->daemon->store));
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
    if (getenv("SLURM_JOB_ID"))
        set_slurm_identity(r->daemon, r->number);
    set_devices(r);
    folding_environment(c);
    pmix_environment(r);
    set_number("PRISM_RANK", r->number);
    setenv("PRISM_SOCKET", r->daemon->socket_name, 1);
    setenv("PRISM_KEY", r->daemon->key, 1);
    if (r->daemon->phase == PHASE_CAPTURE) {
        set_number("PRISM_WIDEN_CONNECTIONS", place_capture_queues(c)); /* else the program's own number of hardware queues rules */
        if (r->daemon->board) /* many ranks: software GPUs need no thread a stream, as times mean nothing in capture */
            setenv("SOFTGPU_UNTIMED", "1", 0);
    } else {
        unsetenv("PRISM_WIDEN_CONNECTIONS");
    }
    if (r->daemon->transport == TRANSPORT_NCCL)
        setenv("NCCL_NVLS_ENABLE", "0", 1); /* as in the assistants */
    set_preload(r);
    container_environment(c);
}

static void redirect_output(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (fd < 0)
        return;
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static void redirect_input(void)
{
    int null = open("/dev/null", O_RDONLY);
    if (null <= STDIN_FILENO)
        return;
    dup2(null, STDIN_FILENO);
    close(null);
}

static void become_program(struct rank *r, pid_t parent)
{
    /* A rank does not outlive its prismd, however that ends. */
    child_begin(parent);
    set_identity(r);
    if (r->log_path) {
        redirect_output(r->log_path);
        redirect_input();
    }
    if (scratch_enter(r->daemon->conf, r->daemon->phase)) {
        dprintf(STDERR_FILENO, "prism: rank %u cannot enter its copy of the working directory: %s\n", r->number, strerror(errno));
        _exit(PRISM_EXIT_SYSTEM);
    }
    execve(r->daemon->conf->executable, r->daemon->conf->argv, environ);
    dprintf(STDERR_FILENO, "prism: cannot run %s: %s\n", r->daemon->conf->executable, strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

int rank_start(struct rank *r, struct prism_error *err)
{
    pid_t pid = starter_fork(r, become_program);
    if (pid < 0)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "cannot start rank %u: %s; raise the process limit or lower --prism-emulate",
                               r->number, strerror(errno));
    setpgid(pid, pid);
    r->pid = pid;
    r->state = RANK_RUNNING;
    r->running_since_ns = clock_now_ns();
    r->daemon->live++;
    settling_started(r);
    log_debug("rank %u started (process %d)", r->number, (int)pid);
    return 0;
}
