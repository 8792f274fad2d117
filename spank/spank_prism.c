/* spank_prism.c - spank_prism.so: plugstack arguments, options, and which hook does what. */
#include "spank_prism.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* Only what Slurm looks up leaves the library (spank_prism.map). */
#pragma GCC visibility push(default)
SPANK_PLUGIN(prism, 1);
int slurm_spank_init(spank_t spank, int argc, char **argv);
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv);
int slurm_spank_task_init(spank_t spank, int argc, char **argv);
int slurm_spank_exit(spank_t spank, int argc, char **argv);
#pragma GCC visibility pop

struct plugin_conf plugin_conf;
struct options plugin_options;

static bool in_client(void) { return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR; }

/* --- plugstack.conf --- */

static int read_argument(const char *argument)
{
    static const struct {
        const char *name, *file;
        char *to;
    } known[] = {{"libdir=", "/libprism.so", plugin_conf.library},
                 {"bindir=", "/prismd", plugin_conf.prismd},
                 {"config=", "", plugin_conf.config}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t len = strlen(known[i].name);
        if (strncmp(argument, known[i].name, len) || argument[len] != '/')
            continue;
        int n = snprintf(known[i].to, sizeof plugin_conf.library, "%s%s", argument + len, known[i].file);
        return n > 0 && (size_t)n < sizeof plugin_conf.library ? 0 : -1;
    }
    return -1;
}

/* Once a command: every node's slurmstepd reads the same line. */
static void complain(const char *what, const char *argument)
{
    if (in_client())
        slurm_error("prism: plugstack.conf: %s%s; Prism is off", what, argument);
}

static void read_arguments(int argc, char **argv)
{
    plugin_conf = (struct plugin_conf){.on = true};
    for (int i = 0; i < argc && plugin_conf.on; i++) {
        if (!read_argument(argv[i]))
            continue;
        complain("libdir=, bindir= and config= with absolute paths are allowed, not ", argv[i]);
        plugin_conf.on = false;
    }
    if (!plugin_conf.on || (plugin_conf.library[0] && plugin_conf.prismd[0]))
        return;
    complain("libdir= and bindir= must say where libprism.so and prismd are", "");
    plugin_conf.on = false;
}

/* --- options --- */

/* Slurm says "Invalid --NAME argument" and ends with 255 when this fails. What values say about each other is checked in
 * cli_filter.c, when all are known; on a node the client has checked already. */
static int option_given(int id, const char *text, int remote)
{
    struct prism_error err = {0};
    if (remote || spank_context() == S_CTX_REMOTE)
        return ESPANK_SUCCESS;
    if (!options_set(&plugin_options, (enum option_id)id, text, OPTION_FROM_COMMAND_LINE, &err))
        return ESPANK_SUCCESS;
    slurm_error("prism: %s", err.text);
    return -1;
}

static void register_options(spank_t spank)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_table[i];
        struct spank_option option = {.name = (char *)row->name,
                                      .arginfo = (char *)row->argument,
                                      .usage = (char *)row->doc,
                                      .has_arg = (int)row->takes,
                                      .val = i,
                                      .cb = option_given};
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
            slurm_error("prism: --%s cannot be registered: another plugin has it", row->name);
    }
}

/* --- hooks: the process each runs in is in the function's file name --- */

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    if (!in_client() && spank_context() != S_CTX_REMOTE)
        return ESPANK_SUCCESS;
    read_arguments(argc, argv);
    if (plugin_conf.on && plugin_conf.config[0] && in_client())
        setenv(CLIENT_SITE_CONFIG_VARIABLE, plugin_conf.config, 1);
    if (plugin_conf.on)
        register_options(spank);
    return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    if (plugin_conf.on && in_client())
        client_post_options(spank);
    return ESPANK_SUCCESS;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    if (plugin_conf.on && spank_context() == S_CTX_REMOTE)
        stepd_task_init(spank);
    return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t spank, int argc, char **argv)
{
    options_clear(&plugin_options);
    return ESPANK_SUCCESS;
}
