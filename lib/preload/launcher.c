#include "preload/launcher.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_launcher_module(const char *name)
{
    return !strcmp(name, "torch.distributed.run") || !strcmp(name, "torch.distributed.launch");
}

/* Index of torchrun's first own argument; 0 = this is not torchrun. */
static int find_launcher(char **argv)
{
    int i = 1;
    if (!argv[0] || strncmp(base_of(argv[0]), "python", 6))
        return 0;
    for (; argv[i] && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "-m"))
            return argv[i + 1] && is_launcher_module(argv[i + 1]) ? i + 2 : 0;
        if ((!strcmp(argv[i], "-X") || !strcmp(argv[i], "-W")) && argv[i + 1])
            i++;
        else if (!strcmp(argv[i], "-c"))
            return 0;
    }
    return argv[i] && !strcmp(base_of(argv[i]), "torchrun") ? i + 1 : 0;
}

/* Is argument the option `name`, written with - or _? Fills its value (NULL for a flag without one). */
static bool is_option(const char *argument, const char *name, const char **value)
{
    size_t i = 0;
    if (strncmp(argument, "--", 2))
        return false;
    for (argument += 2; name[i]; i++)
        if (argument[i] != name[i] && !(name[i] == '-' && argument[i] == '_'))
            return false;
    if (argument[i] && argument[i] != '=')
        return false;
    *value = argument[i] ? argument + i + 1 : NULL;
    return true;
}

static bool takes_no_value(const char *argument)
{
    static const char *const flags[] = {"standalone", "module", "no-python", "run-path", "use-env"};
    const char *value;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (is_option(argument, flags[i], &value))
            return true;
    return !strcmp(argument, "-m") || strchr(argument, '=');
}

/* "1024", of "1:1024" the largest; 0 for "gpu", "auto". */
static unsigned count_of(const char *text)
{
    const char *colon = strchr(text, ':');
    return (unsigned)strtoul(colon ? colon + 1 : text, NULL, 10);
}

static unsigned default_count(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? count_of(text) : 1;
}

bool launcher_parse(char **argv, struct launcher *out)
{
    int i = find_launcher(argv);
    bool module = false, plain = false;
    const char *value;
    struct launcher l = {.nnodes = default_count("PET_NNODES"), .per_node = default_count("PET_NPROC_PER_NODE")};
    if (!i)
        return false;
    for (; argv[i] && argv[i][0] == '-'; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "-h") || !strcmp(name, "--help"))
            return false;
        module |= !strcmp(name, "-m") || is_option(name, "module", &value);
        plain |= is_option(name, "no-python", &value);
        bool apart = !takes_no_value(name);
        if (apart && !argv[++i])
            return false;
        if (is_option(name, "nnodes", &value))
            l.nnodes = count_of(value ? value : argv[i]);
        else if (is_option(name, "nproc-per-node", &value))
            l.per_node = count_of(value ? value : argv[i]);
    }
    if (!argv[i])
        return false;
    int n = 0, k = 0;
    while (argv[i + n])
        n++;
    l.command = calloc((size_t)n + 4, sizeof *l.command);
    if (!l.command)
        abort();
    l.python = !plain;
    if (!plain) {
        l.command[k++] = argv[0];
        l.command[k++] = (char *)(uintptr_t) "-u";
        if (module)
            l.command[k++] = (char *)(uintptr_t) "-m";
    }
    memcpy(l.command + k, argv + i, (size_t)n * sizeof *argv);
    *out = l;
    return true;
}

static unsigned variable_number(const char *name)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static void check_world(const struct launcher *l)
{
    unsigned world = variable_number("WORLD_SIZE"), local = variable_number("LOCAL_WORLD_SIZE");
    unsigned per_node = l->per_node ? l->per_node : local, nodes = l->nnodes;
    if (!world || (unsigned long long)per_node * nodes == world)
        return;
    if (!variable_number("RANK"))
        dprintf(STDERR_FILENO, "prism: torchrun asks for %u x %u ranks (--nnodes, --nproc-per-node), the emulated job has %u: let both "
                "say the same\n", nodes, per_node, world);
    _exit(PRISM_EXIT_USAGE);
}

/* What the agent would set and prismd does not. */
static void set_variables(const struct launcher *l)
{
    char nodes[16];
    snprintf(nodes, sizeof nodes, "%u", l->nnodes);
    setenv("GROUP_WORLD_SIZE", nodes, 1);
    setenv("ROLE_NAME", "default", 1);
    setenv("ROLE_RANK", getenv("RANK") ? getenv("RANK") : "0", 1);
    setenv("ROLE_WORLD_SIZE", getenv("WORLD_SIZE") ? getenv("WORLD_SIZE") : "1", 1);
    setenv("TORCHELASTIC_MAX_RESTARTS", "0", 1);
    setenv("TORCHELASTIC_RUN_ID", "none", 0);
    if (variable_number("LOCAL_WORLD_SIZE") > 1)
        setenv("OMP_NUM_THREADS", "1", 0);
}

void launcher_skip(char **argv)
{
    struct launcher l;
    char exe[PATH_MAX];
    if (!launcher_parse(argv, &l))
        return;
    check_world(&l);
    set_variables(&l);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (l.python && n > 0) {
        exe[n] = 0;
        execv(exe, l.command);
    } else {
        execvp(l.command[0], l.command);
    }
    dprintf(STDERR_FILENO, "prism: torchrun's program %s cannot be run: %s\n", l.command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}
