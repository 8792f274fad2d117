#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_emulate(const char *text, struct prism_error *err)
{
    uint64_t n;
    return parse_number(text, 0, PARSE_WORLD_MAX, &n, err);
}

static int check_sandbox(const char *text, struct prism_error *err)
{
    struct parse_ranks ranks;
    if (parse_ranks(text, &ranks, err))
        return -1;
    parse_ranks_clear(&ranks);
    return 0;
}

static int check_assistants(const char *text, struct prism_error *err)
{
    uint64_t n;
    return parse_number(text, 0, 4096, &n, err);
}

static int check_phase(const char *text, struct prism_error *err)
{
    static const char *const phases[] = {"auto", "capture", "calibrate", "emulate", NULL};
    size_t i;
    return parse_choice(text, phases, &i, err);
}

/* Values travel as lines of one variable (slurmstepd.c), and end up in file names. */
static int check_path(const char *text, struct prism_error *err)
{
    if (!*text)
        return prism_error_set(err, PRISM_EXIT_USAGE, "the path is empty");
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 32)
            return prism_error_set(err, PRISM_EXIT_USAGE, "the path holds a control character");
    return 0;
}

static int check_gpus_per_node(const char *text, struct prism_error *err)
{
    uint64_t n;
    return parse_number(text, 1, 1024, &n, err);
}

static int check_layout(const char *text, struct prism_error *err)
{
    struct parse_layout layout;
    return parse_layout(text, &layout, err);
}

static int check_fold(const char *text, struct prism_error *err) { return parse_fold(text, NULL, err); }

static int check_slices(const char *text, struct prism_error *err)
{
    uint64_t n;
    if (!strcmp(text, "auto") || !strcmp(text, "all"))
        return 0;
    if (!parse_number(text, 1, PARSE_WORLD_MAX, &n, NULL))
        return 0;
    return prism_error_set(err, PRISM_EXIT_USAGE, "'%.40s' is unknown: auto, all or a number from 1 to %u is allowed", text,
                           PARSE_WORLD_MAX);
}

static int check_iterations(const char *text, struct prism_error *err)
{
    uint64_t n;
    return parse_number(text, 1, 1000000000, &n, err);
}

static int check_payload(const char *text, struct prism_error *err)
{
    static const char *const modes[] = {"full", "control", "none", NULL};
    size_t i;
    return parse_choice(text, modes, &i, err);
}

static int check_divergence(const char *text, struct prism_error *err)
{
    static const char *const answers[] = {"stop", "warn", NULL};
    size_t i;
    return parse_choice(text, answers, &i, err);
}

static int check_flag(const char *text, struct prism_error *err)
{
    static const char *const values[] = {"0", "1", NULL};
    size_t i;
    return parse_choice(text, values, &i, err);
}

const struct option_row option_table[OPTION_COUNT] = {
    [OPTION_EMULATE] = {"prism-emulate", "[N]", "emulate a job of N ranks on few GPUs; without N what the request asks for, 0 = leave this step alone", "PRISM_EMULATE", OPTION_OPTIONAL, check_emulate},
    [OPTION_SANDBOX] = {"prism-sandbox", "LIST", "ranks that run for real, such as 0,17,4096-4099 (default 0)", "PRISM_SANDBOX", OPTION_REQUIRED, check_sandbox},
    [OPTION_ASSISTANTS] = {"prism-assistants", "K", "GPUs that stand in for the other ranks, 0 = none, recorded results (default 0)", "PRISM_ASSISTANTS", OPTION_REQUIRED, check_assistants},
    [OPTION_PHASE] = {"prism-phase", "auto|capture|calibrate|emulate", "what to do; auto does what the trace still lacks (default)", "PRISM_PHASE", OPTION_REQUIRED, check_phase},
    [OPTION_TRACE] = {"prism-trace", "DIR", "folder of the trace (default prism-trace/NAME in the submit directory, NAME the job's)", "PRISM_TRACE", OPTION_REQUIRED, check_path},
    [OPTION_GPUS_PER_NODE] = {"prism-gpus-per-node", "G", "GPUs a node of the emulated cluster (default the request's, else 8)", "PRISM_GPUS_PER_NODE", OPTION_REQUIRED, check_gpus_per_node},
    [OPTION_LAYOUT] = {"prism-layout", "NAME:SIZE,...", "parallel dimensions from inner to outer, such as tp:8,dp:64,pp:16", "PRISM_LAYOUT", OPTION_REQUIRED, check_layout},
    [OPTION_FOLD] = {"prism-fold", "NAME,...", "dimensions of which one representative runs in capture, such as dp", "PRISM_FOLD", OPTION_REQUIRED, check_fold},
    [OPTION_SLICES] = {"prism-slices", "auto|all|N", "ranks calibrated a class of equal ranks (default auto)", "PRISM_SLICES", OPTION_REQUIRED, check_slices},
    [OPTION_ITERATIONS] = {"prism-iterations", "K", "end capture after K iterations (default when the program ends)", "PRISM_ITERATIONS", OPTION_REQUIRED, check_iterations},
    [OPTION_PAYLOAD] = {"prism-payload", "full|control|none", "contents of messages that a trace keeps, or that are delivered from it (default full, or what the trace has)", "PRISM_PAYLOAD", OPTION_REQUIRED, check_payload},
    [OPTION_NETWORK] = {"prism-network", "FILE", "network profile (default measured on this machine)", "PRISM_NETWORK", OPTION_REQUIRED, check_path},
    [OPTION_SCRATCH] = {"prism-scratch", NULL, "run each phase in a copy of the working directory", "PRISM_SCRATCH", OPTION_FLAG, check_flag},
    [OPTION_ON_DIVERGENCE] = {"prism-on-divergence", "stop|warn", "when the program does something else than in capture (default stop)", "PRISM_ON_DIVERGENCE", OPTION_REQUIRED, check_divergence},
};

/* As its source writes it: "--prism-sandbox", "PRISM_SANDBOX", or in prism.conf "sandbox". */
static const char *name_in(const struct option_row *row, enum option_source from, char out[48])
{
    bool line = from == OPTION_FROM_COMMAND_LINE;
    snprintf(out, 48, "%s%s", line ? "--" : "", line ? row->name : from == OPTION_FROM_FILE ? row->name + sizeof "prism-" - 1 : row->variable);
    return out;
}

/* Puts "--prism-emulate=VALUE: " or "PRISM_EMULATE=VALUE: " in front of why. */
static int refuse(const struct option_row *row, const char *text, enum option_source from, const struct prism_error *why,
                  struct prism_error *err)
{
    char name[48];
    return prism_error_set(err, why->code ? why->code : PRISM_EXIT_USAGE, "%s=%.80s: %s", name_in(row, from, name), text, why->text);
}

int options_set(struct options *o, enum option_id id, const char *text, enum option_source from, struct prism_error *err)
{
    const struct option_row *row = &option_table[id];
    bool bare = !text || !strcmp(text, "(null)");
    if (bare && row->takes == OPTION_REQUIRED)
        return prism_error_set(err, PRISM_EXIT_USAGE, "--%s needs a value: %s", row->name, row->argument);
    const char *value = !bare ? text : row->takes == OPTION_FLAG ? "1" : "";
    struct prism_error why = {0};
    if (!(bare && row->takes == OPTION_OPTIONAL) && row->check && row->check(value, &why))
        return refuse(row, value, from, &why, err);
    if (from < o->source[id])
        return 0;
    char *copy = strdup(value);
    if (!copy)
        return prism_error_set(err, PRISM_EXIT_SYSTEM, "out of memory for --%s", row->name);
    free(o->text[id]);
    o->text[id] = copy;
    o->source[id] = from;
    return 0;
}

int options_read_environment(struct options *o, struct prism_error *err)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *value = getenv(option_table[i].variable);
        if (!value || !*value || o->source[i] == OPTION_FROM_COMMAND_LINE)
            continue;
        if (options_set(o, (enum option_id)i, value, OPTION_FROM_ENVIRONMENT, err))
            return -1;
    }
    return 0;
}

/* How the user wrote it. */
static const char *written(const struct options *o, enum option_id id, char out[48])
{
    return name_in(&option_table[id], o->source[id], out);
}

static int check_sandbox_in(const struct options *o, uint32_t world, struct prism_error *err)
{
    struct parse_ranks ranks;
    char name[48];
    const char *text = o->text[OPTION_SANDBOX];
    if (!text || !world)
        return 0;
    if (parse_ranks(text, &ranks, err))
        return -1;
    uint32_t highest = ranks.highest;
    parse_ranks_clear(&ranks);
    if (highest < world)
        return 0;
    return prism_error_set(err, PRISM_EXIT_USAGE, "%s=%.80s: rank %u is outside the world: ranks 0 to %u are allowed",
                           written(o, OPTION_SANDBOX, name), text, highest, world - 1);
}

static int check_layout_of(const struct options *o, uint32_t world, struct prism_error *err)
{
    const char *text = o->text[OPTION_LAYOUT], *fold = o->text[OPTION_FOLD];
    struct parse_layout layout;
    struct prism_error why = {0};
    char name[48];
    if (fold && !text)
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s=%.80s needs --prism-layout, which says what '%.40s' is",
                               written(o, OPTION_FOLD, name), fold, fold);
    if (!text)
        return 0;
    if (parse_layout(text, &layout, err))
        return -1;
    if (world && layout.product != world)
        return prism_error_set(err, PRISM_EXIT_USAGE, "%s=%.80s has %llu ranks, the emulated job %u",
                               written(o, OPTION_LAYOUT, name), text,
                               (unsigned long long)layout.product, world);
    if (fold && parse_fold(fold, &layout, &why))
        return refuse(&option_table[OPTION_FOLD], fold, o->source[OPTION_FOLD], &why, err);
    return 0;
}

int options_check(const struct options *o, uint32_t world, struct prism_error *err)
{
    if (check_sandbox_in(o, world, err))
        return -1;
    return check_layout_of(o, world, err);
}

void options_clear(struct options *o)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        free(o->text[i]);
    *o = (struct options){0};
}

uint32_t options_number(const struct options *o, enum option_id id, uint32_t otherwise)
{
    uint64_t value;
    const char *text = o->text[id];
    if (!text || !*text || parse_number(text, 0, UINT32_MAX, &value, NULL))
        return otherwise;
    return (uint32_t)value;
}

bool options_emulate(const struct options *o)
{
    const char *text = o->text[OPTION_EMULATE];
    return text && (!*text || options_number(o, OPTION_EMULATE, 0) > 0);
}
