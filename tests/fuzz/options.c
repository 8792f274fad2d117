/* options.c - what a user can hand to Slurm's processes: option values, prism.conf, the variables of a request and of a batch
 * script. The first byte says which parser; the rest is its text. */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "config.h"
#include "options.h"
#include "policy.h"
#include "script.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/text.h"

const uint32_t fuzz_unit_runs = 300000;

enum target { RANKS, LAYOUT, FOLD, NUMBER, GPUS, OPTION, CONFIG, POLICY, SHAPE, REQUEST, LICENCES, DECLARED, COMMENT, SCRIPT, TARGETS };

/* --- a batch script's environment: the text is NAME=value lines --- */

static int get_line(void *ctx, const char *name, char *value, size_t size)
{
    size_t len = strlen(name);
    for (const char *line = ctx; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, name, len) || line[len] != '=')
            continue;
        size_t n = strcspn(line + len + 1, "\n");
        if (n >= size)
            return -1;
        memcpy(value, line + len + 1, n);
        value[n] = '\0';
        return 1;
    }
    return 0;
}

static volatile size_t taken; /* so that every byte handed on is read */

static void take(void *ctx, const char *name, const char *value)
{
    (void)ctx;
    taken += strlen(name) + (value ? strlen(value) : 0);
}

static void request(char *text, size_t len)
{
    char *env[64];
    uint32_t n = 0;
    struct policy_shape shape;
    enum policy_asked asked;
    struct prism_error err = {0};
    for (char *line = text; line <= text + len && n < 64; line += strlen(line) + 1) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        env[n++] = line;
    }
    policy_read_request(env, n, &asked, &shape, &err);
}

static void option(char *text)
{
    struct options o = {0};
    struct prism_error err = {0};
    for (int i = 0; i < OPTION_COUNT; i++)
        options_set(&o, (enum option_id)i, text, OPTION_FROM_COMMAND_LINE, &err);
    options_check(&o, 64, &err);
    options_clear(&o);
}

static void shape_of(const char *text)
{
    struct policy_shape shape = {0};
    char out[POLICY_SHAPE_MAX];
    struct prism_error err = {0};
    if (!policy_shape_parse(text, &shape, &err) && policy_shape_print(&shape, out, sizeof out))
        abort(); /* always fits */
}

static void comment_of(const char *text)
{
    struct policy_shape shape = {.world = 64, .nodes = 8, .gpus_per_node = 8, .assistants = -1, .phase = "auto"};
    char out[1024];
    if (!policy_admin_comment(text, &shape, out, sizeof out))
        taken += strlen(out);
}

static void run_one(enum target target, char *text, size_t len)
{
    struct prism_error err = {0};
    struct parse_ranks ranks = {0};
    struct parse_layout layout;
    struct options o = {0};
    struct policy policy;
    struct script_environment e = {get_line, take, text};
    uint64_t value;
    char out[1024];
    switch (target) {
    case RANKS: parse_ranks(text, &ranks, &err); parse_ranks_clear(&ranks); break;
    case LAYOUT: parse_layout(text, &layout, &err); break;
    case FOLD: parse_fold(text, NULL, &err); break;
    case NUMBER: parse_number(text, 1, 1000, &value, &err); break;
    case GPUS: taken += parse_slurm_gpus(text, len & 1, out, 16); free(parse_slurm_gres_rest(text)); break;
    case OPTION: option(text); break;
    case CONFIG: config_parse(&o, "fuzz", text, len, &err); options_clear(&o); break;
    case POLICY: policy_parse(text, len, &policy, &err); break;
    case SHAPE: shape_of(text); break;
    case REQUEST: request(text, len); break;
    case LICENCES: policy_licences(text, 64, true, true, out, sizeof out); break;
    case DECLARED: taken += policy_declared(text, "prism_rank"); break;
    case COMMENT: comment_of(text); break;
    case SCRIPT: script_show_job(&e); break;
    case TARGETS: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (!len)
        return 0;
    char *text = fuzz_text(data + 1, len - 1);
    run_one((enum target)(data[0] % TARGETS), text, len - 1);
    free(text);
    return 0;
}
