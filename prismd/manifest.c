#include "prismd/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

static char *random_id(void)
{
    uint64_t x = 0;
    char text[17];
    if (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x)
        x = (uint64_t)clock_now_ns();
    snprintf(text, sizeof text, "%016llx", (unsigned long long)x);
    return strdup(text);
}

static char *now_text(void)
{
    char text[32];
    time_t t = time(NULL);
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return strdup(text);
}

static char **copy_list(char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        out[i] = strdup(list[i]);
    return out;
}

void manifest_fill(const struct conf *c, struct trace_manifest *m)
{
    static char *const none[] = {NULL};
    trace_manifest_clear(m);
    m->version = TRACE_VERSION;
    m->world = c->world;
    m->gpus_per_node = c->gpus_per_node;
    m->nodes = c->nodes;
    m->payload = c->payload;
    m->sandbox = malloc(c->nsandbox * sizeof *m->sandbox);
    memcpy(m->sandbox, c->sandbox, c->nsandbox * sizeof *m->sandbox);
    m->nsandbox = c->nsandbox;
    m->layout = c->fold ? strdup(c->layout) : NULL;
    m->fold = c->fold ? strdup(c->fold_names) : NULL;
    m->argv = copy_list(c->argv);
    m->env = copy_list(none);
    m->cwd = getcwd(NULL, 0);
    m->program_id = trace_program_id(c->argv);
    m->created = now_text();
    m->trace_id = random_id();
}

bool manifest_is_anothers(const struct conf *c, const struct trace_manifest *m)
{
    char *id = trace_program_id(c->argv);
    bool other = m->complete && (strcmp(m->program_id, id) || m->world != c->world);
    free(id);
    return other;
}
