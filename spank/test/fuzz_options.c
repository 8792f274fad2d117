/* fuzz_options [FILE...] - what a user can hand to Slurm's processes: option values, prism.conf, the variables of a request and of a
 * batch script. Also libFuzzer's entry point (-DLIBFUZZER); without files: 300,000 inputs, each a value that means something
 * with a few bytes changed, the same ones every time.
 *
 * The first byte says which parser; the rest is its text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "common/file.h"
#include "config.h"
#include "options.h"
#include "policy.h"
#include "script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

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
    char *text = malloc(len); /* exactly, so that a byte too far is noticed */
    if (!text)
        abort();
    memcpy(text, data + 1, len - 1);
    text[len - 1] = '\0';
    run_one((enum target)(data[0] % TARGETS), text, len - 1);
    free(text);
    return 0;
}

#ifndef LIBFUZZER
static const char *const seeds[TARGETS] = {
    [RANKS] = "0,17,4096-4099,9999999", [LAYOUT] = "tp:8,dp:64,pp:16", [FOLD] = "dp,ep", [NUMBER] = "18446744073709551615",
    [GPUS] = "gpu:h200:8,nvme:1,gres/gpu=4", [OPTION] = "0,17,40-43",
    [CONFIG] = "[options]\nsandbox = 0\npayload = control # so\n[policy]\n",
    [POLICY] = "[policy]\nmax-ranks = 16384\nusers = alice,bob\nlicenses = auto\ndefault-qos = emulation\n",
    [SHAPE] = "world=64,nodes=8,gpus_per_node=8,devices=2,sandbox_ranks=6,sandbox=0+17+40-43,assistants=1,phase=auto",
    [REQUEST] = "_SLURM_SPANK_OPTION_prism_prism_emulate=64\nPRISM_SHAPE=world=64,nodes=8,gpus_per_node=8\nPATH=/bin",
    [LICENCES] = "matlab:5,prism_rank:3,b", [DECLARED] = "prism_rank:1000,matlab:5,prism_gpu@db:7",
    [COMMENT] = "mine; prism:world=8,nodes=2",
    [SCRIPT] = "PRISM_WORLD=64\nPRISM_LOGICAL_NODES=8\nPRISM_TASKS=64\nPRISM_GPUS_PER_NODE=8\nSLURM_JOB_NODELIST=gpu[17-18,20]\n"
               "SLURM_NNODES=2\nSLURM_TASKS_PER_NODE=1(x2)\nSLURM_JOB_GPUS=0,1\nSLURM_NTASKS=2"};

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void mutate(uint8_t *data, size_t *len, uint32_t *state)
{
    static const char alphabet[] = "0123456789,-:+=[]()|@\n \0\xff" "9%/x";
    uint32_t at = 1 + next(state) % (uint32_t)*len, what = next(state) % 4, many = 1 + next(state) % 8;
    uint8_t byte = (uint8_t)alphabet[next(state) % (sizeof alphabet - 1)];
    if (what == 0 && *len > many + 1 && at + many < *len) { /* cut */
        memmove(data + at, data + at + many, *len - at - many);
        *len -= many;
    } else if (what == 1 && *len + many < 8192 && at < *len) { /* one byte, repeated */
        memmove(data + at + many, data + at, *len - at);
        memset(data + at, byte, many);
        *len += many;
    } else if (what == 2 && *len * 2 < 8192) { /* twice */
        memcpy(data + *len, data + 1, *len - 1);
        *len += *len - 1;
    } else if (at < *len) {
        data[at] = byte;
    }
}

static void run_seeds(void)
{
    static uint8_t data[8192];
    uint32_t state = 2463534242u;
    for (uint32_t i = 0; i < 300000; i++) {
        data[0] = (uint8_t)(i % TARGETS);
        size_t len = 1 + strlen(seeds[i % TARGETS]);
        memcpy(data + 1, seeds[i % TARGETS], len - 1);
        for (uint32_t k = next(&state) % 8; k; k--)
            mutate(data, &len, &state);
        LLVMFuzzerTestOneInput(data, len);
    }
}

int main(int argc, char **argv)
{
    struct bytes data = {0};
    struct prism_error err = {0};
    if (argc == 1) { /* as cmocka's TAP, which tests/run counts */
        printf("1..1\n");
        run_seeds();
        printf("ok 1 - seeded inputs\n");
    }
    for (int i = 1; i < argc; i++) {
        data.len = 0;
        if (file_read(argv[i], 64u << 20, &data, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        LLVMFuzzerTestOneInput(data.data, data.len);
    }
    bytes_free(&data);
    return 0;
}
#endif
