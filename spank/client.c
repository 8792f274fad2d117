#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy.h"

char *client_absolute(const char *path)
{
    char *folder, *out = NULL;
    if (*path == '/')
        return strdup(path);
    folder = getcwd(NULL, 0);
    if (folder && asprintf(&out, "%s/%s", folder, path) < 0)
        out = NULL;
    free(folder);
    return out;
}

/* Sets the variable here and appends it to the packed one. */
static void publish(FILE *packed, const char *name, const char *value)
{
    setenv(name, value, 1);
    fprintf(packed, "%s=%s\n", name, value);
}

static void publish_number(FILE *packed, const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    publish(packed, name, text);
}

static void publish_option(FILE *packed, const struct options *o, enum option_id id)
{
    const char *text = o->text[id], *name = option_table[id].variable;
    if (!text || id == OPTION_EMULATE || id == OPTION_GPUS_PER_NODE)
        return; /* those two are part of the shape */
    char *absolute = id == OPTION_TRACE || id == OPTION_NETWORK ? client_absolute(text) : NULL;
    publish(packed, name, absolute ? absolute : text);
    free(absolute);
}

struct policy_shape client_shape(const struct options *o, const struct shape *s)
{
    const char *sandbox = o->text[OPTION_SANDBOX] ? o->text[OPTION_SANDBOX] : "0", *phase = o->text[OPTION_PHASE];
    struct policy_shape out = {.world = s->world,
                               .nodes = s->nodes,
                               .gpus_per_node = s->gpus_per_node,
                               .devices = s->physical_nodes * s->devices_per_node,
                               .sandbox_ranks = s->sandbox_ranks,
                               .assistants = o->text[OPTION_ASSISTANTS] ? (int)options_number(o, OPTION_ASSISTANTS, 0) : -1};
    if (strlen(sandbox) < sizeof out.sandbox)
        strcpy(out.sandbox, sandbox);
    snprintf(out.phase, sizeof out.phase, "%s", phase ? phase : "auto");
    return out;
}

static void publish_shape(const struct options *o, const struct shape *s)
{
    struct policy_shape shape = client_shape(o, s);
    char text[POLICY_SHAPE_MAX];
    if (!policy_shape_print(&shape, text, sizeof text))
        setenv(POLICY_SHAPE_VARIABLE, text, 1);
}

void client_export(const struct options *o, const struct shape *s, const char *trace)
{
    /* prismd's own settings have no option; they travel with the rest. */
    static const char *const passed[] = {"PRISM_REPORT", "PRISM_RUNNABLE", "PRISM_QUEUES", "PRISM_STAGING", "PRISM_PREFETCH", "PRISM_ASSISTANT_MEMORY",
                                         "PRISM_BALLAST", "PRISM_SWITCHING", "PRISM_HOST_POOL", "PRISM_HOST_RESERVE", "PRISM_SPILL",
                                         "PRISM_DEVICE_MEMORY", "PRISM_CONTEXT_BYTES", "PRISM_LINK_SECONDS",
                                         "PRISM_STALL_SECONDS", "PRISM_PMIX", "PRISM_CONTAINER", "PRISM_SCRATCH_BYTES",
                                         "PRISM_ACCOUNTING_SECONDS", "PRISM_MUNGE_SOCKET", "PRISM_LOG", "PRISM_FAULT",
                                         "PRISM_NODE_BASE", "PRISM_NODE_COUNT", CLIENT_JOB_NAME_VARIABLE};
    char *text = NULL;
    size_t size;
    FILE *packed = open_memstream(&text, &size);
    if (!packed)
        return;
    for (int i = 0; i < OPTION_COUNT; i++)
        publish_option(packed, o, (enum option_id)i);
    unsetenv(CLIENT_DEFAULT_TRACE_VARIABLE);
    if (!o->text[OPTION_TRACE] && trace) {
        publish(packed, "PRISM_TRACE", trace);
        publish(packed, CLIENT_DEFAULT_TRACE_VARIABLE, "1");
    }
    publish_number(packed, "PRISM_EMULATE", s->world);
    publish_number(packed, "PRISM_WORLD", s->world);
    publish_number(packed, "PRISM_LOGICAL_NODES", s->nodes);
    publish_number(packed, "PRISM_GPUS_PER_NODE", s->gpus_per_node);
    publish_number(packed, "PRISM_TASKS", s->tasks);
    publish_number(packed, "PRISM_CPUS_PER_TASK", s->asked_cpus_per_task);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (getenv(passed[i]) && !strchr(getenv(passed[i]), '\n'))
            publish(packed, passed[i], getenv(passed[i]));
    fclose(packed);
    if (text)
        setenv(CLIENT_PACKED_VARIABLE, text, 1);
    free(text);
    publish_shape(o, s);
}

void client_export_off(void)
{
    unsetenv(CLIENT_PACKED_VARIABLE);
    unsetenv(POLICY_SHAPE_VARIABLE);
}

/* The next line of CLIENT_REAL_VARIABLE into name and *value (NULL: was unset); false at the end. */
static bool next_real(const char **at, char *name, size_t size, char **value)
{
    if (!*at || !**at)
        return false;
    size_t len = strcspn(*at, "\n"), key = strcspn(*at, "=\n");
    snprintf(name, size, "%.*s", (int)key, *at);
    *value = key < len ? strndup(*at + key + 1, len - key - 1) : NULL;
    *at += len + ((*at)[len] == '\n');
    return true;
}

void client_restore_real(void)
{
    const char *all = getenv(CLIENT_REAL_VARIABLE);
    char *copy = all ? strdup(all) : NULL, name[64], *value;
    unsetenv(CLIENT_REAL_VARIABLE);
    for (const char *at = copy; next_real(&at, name, sizeof name, &value); free(value)) {
        if (value)
            setenv(name, value, 1);
        else
            unsetenv(name);
    }
    free(copy);
}

char *client_real(const char *name)
{
    char found[64], *value;
    for (const char *at = getenv(CLIENT_REAL_VARIABLE); next_real(&at, found, sizeof found, &value); free(value))
        if (!strcmp(found, name))
            return value;
    return NULL;
}
