/* The site's policy: its file, what users hand over (fuzzed), decisions and the strings for Slurm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy.h"

static struct policy parsed(const char *text)
{
    struct policy p;
    struct prism_error err = {0};
    if (policy_parse(text, strlen(text), &p, &err))
        fail_msg("%s", err.text);
    return p;
}

static void refused(const char *text, const char *why)
{
    struct policy p = {.max_ranks = 77};
    struct prism_error err = {0};
    assert_int_equal(policy_parse(text, strlen(text), &p, &err), -1);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
    assert_int_equal(p.max_ranks, 77);
}

static void test_file(void **state)
{
    struct policy p = parsed("# Prism\nworld = what others understand\n[policy]\n max-ranks=16384 # a comment\n"
                             "partitions = gpu, debug ,x\r\nusers=\"alice\"\ndefault-qos = emulation\nlicenses = none\n"
                             "[other]\nmax-gpus = not ours\n[policy]\nmax-gpus = 16");
    assert_int_equal(p.max_ranks, 16384);
    assert_int_equal(p.max_gpus, 16);
    assert_string_equal(p.partitions, "gpu,debug,x");
    assert_string_equal(p.users, "alice");
    assert_string_equal(p.default_qos, "emulation");
    assert_string_equal(p.default_partition, "");
    assert_int_equal(p.licences, POLICY_LICENCES_NONE);
    p = parsed("");
    assert_int_equal(p.max_ranks, 0);
    assert_int_equal(p.licences, POLICY_LICENCES_AUTO);
}

static void test_file_refused(void **state)
{
    refused("[policy]\nmax-ranks = many\n", "line 2: max-ranks: 'many' is not a number");
    refused("[policy]\nmax-ranks = 0\n", "out of range");
    refused("[policy]\n\nmax_ranks = 5\n", "line 3: there is no such setting");
    refused("[policy]\nmax-gpus\n", "'name = value' is expected");
    refused("[policy]\nmax-gpus = 1\nmax-gpus = 2\n", "stands twice");
    refused("[policy]\npartitions = a,,b\n", "comma-separated list");
    refused("[policy]\npartitions = a b\n", "comma-separated list");
    refused("[policy]\npartitions = a,\n", "a name is missing");
    refused("[policy]\ndefault-partition = a,b\n", "one name");
    refused("[policy]\ndefault-qos =\n", "a name is missing");
    refused("[policy]\nplain-jobs = no\n", "one of allow, refuse is allowed");
    refused("[policy]\nlicenses = some\n", "one of auto, all, none is allowed");
    char long_text[2 * POLICY_VALUE_MAX];
    snprintf(long_text, sizeof long_text, "[policy]\nusers = %0*d\n", POLICY_VALUE_MAX, 0);
    refused(long_text, "longer than");
}

static enum policy_asked request(const char *option, const char *shape_text, struct policy_shape *shape)
{
    char first[1024], second[1024];
    char *env[] = {(char *)"SPANK_OTHER=1", NULL, first, second};
    uint32_t n = 2;
    enum policy_asked asked;
    struct prism_error err = {0};
    if (option) {
        snprintf(first, sizeof first, "%s=%s", POLICY_OPTION_VARIABLE, option);
        env[n++] = first;
    }
    if (shape_text) {
        snprintf(second, sizeof second, "%s=%s", POLICY_SHAPE_VARIABLE, shape_text);
        env[n++] = second;
    }
    if (policy_read_request(env, n, &asked, shape, &err))
        return (enum policy_asked)-1;
    return asked;
}

static void test_request(void **state)
{
    struct policy_shape s;
    const char *good = "world=64,nodes=8,gpus_per_node=8,devices=2,sandbox_ranks=6,sandbox=0+17+40-43,assistants=1,phase=capture";
    char back[POLICY_SHAPE_MAX];
    assert_int_equal(request(NULL, NULL, &s), POLICY_PLAIN);
    assert_int_equal(request("0", NULL, &s), POLICY_PLAIN);
    assert_int_equal(request("64", NULL, &s), POLICY_UNSHAPED);
    assert_int_equal(s.world, 64);
    assert_int_equal(request("(null)", NULL, &s), POLICY_UNSHAPED);
    assert_int_equal(s.world, 0);
    assert_int_equal(request("", NULL, &s), POLICY_UNSHAPED);
    assert_int_equal((int)request("64x", NULL, &s), -1);
    assert_int_equal(request("64", good, &s), POLICY_SHAPED);
    assert_int_equal(s.world, 64);
    assert_string_equal(s.sandbox, "0,17,40-43");
    assert_int_equal(s.assistants, 1);
    assert_int_equal(policy_shape_print(&s, back, sizeof back), 0);
    assert_string_equal(back, good);
    assert_int_equal(policy_shape_print(&s, back, 40), -1);
    /* variables set, option not: the variable PRISM_EMULATE asked for it */
    assert_int_equal(request(NULL, "gpus_per_node=8,world=8,nodes=1", &s), POLICY_SHAPED);
    assert_int_equal(s.assistants, -1);
    static const char *const bad[] = {"", "world=64", "world=64,nodes=8", "world=64,nodes=8,gpus_per_node=8,world=9",
                                      "world=64,nodes=8,gpus_per_node=8,colour=blue", "world=-1,nodes=8,gpus_per_node=8",
                                      "world=99999999999999999999,nodes=8,gpus_per_node=8", "world=64,nodes=8,gpus_per_node=8,phase=x",
                                      "world=64,nodes=8,gpus_per_node=8,sandbox=", "world=64,nodes=8,gpus_per_node=8,sandbox=9-1",
                                      "world"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal((int)request("64", bad[i], &s), -1);
}

static uint32_t noise_state = 1;
static uint32_t noise(void) { return noise_state = noise_state * 1664525u + 1013904223u, noise_state >> 8; }

/* Good texts with bytes changed, dropped and doubled: whatever comes, it is accepted as something that prints back the
 * same, or refused with a line. The sanitizers see the rest. */
static void test_fuzzed(void **state)
{
    static const char *const seeds[] = {
        "world=64,nodes=8,gpus_per_node=8,devices=2,sandbox_ranks=6,sandbox=0+17+40-43,assistants=1,phase=auto",
        "[policy]\nmax-ranks = 100\nusers = a,b\npartitions=\"x\"\ndefault-qos=q\nlicenses=auto\n", "a:2,b*3,prism_rank:4;c@d:1"};
    for (int round = 0; round < 30000; round++) {
        char text[700];
        const char *seed = seeds[round % 3];
        size_t len = strlen(seed);
        memcpy(text, seed, len + 1);
        for (uint32_t change = noise() % 8 + 1; change; change--) {
            size_t at = noise() % len;
            if (noise() % 3)
                text[at] = (char)(noise() % 255 + 1);
            else if (noise() % 2 && len + len - at < sizeof text - 1)
                memmove(text + len, text + at, len - at), len += len - at;
            else if (len > 2)
                memmove(text + at, text + at + 1, len - at - 1), len--;
            text[len] = 0;
        }
        struct policy p;
        struct policy_shape s, again;
        struct prism_error err = {0};
        char out[POLICY_SHAPE_MAX], small[64];
        if (policy_parse(text, len, &p, &err))
            assert_true(err.text[0] != 0);
        if (!policy_shape_parse(text, &s, NULL)) {
            assert_int_equal(policy_shape_print(&s, out, sizeof out), 0);
            assert_int_equal(policy_shape_parse(out, &again, NULL), 0);
            assert_int_equal(again.world, s.world);
        }
        policy_licences(text, 64, true, true, small, sizeof small);
        policy_declared(text, "prism_rank");
        request(text, text, &s);
    }
}

static void check(const struct policy *p, const struct policy_job *job, const char *why)
{
    struct prism_error err = {0};
    int rc = policy_check(p, job, &err);
    if (rc != (why ? -1 : 0) || (why && !strstr(err.text, why)))
        fail_msg("'%s' instead of '%s'", err.text, why ? why : "(allowed)");
}

static void test_decisions(void **state)
{
    struct policy p = parsed("[policy]\nmax-ranks=1024\nmax-gpus=16\npartitions=gpu,debug\nusers=alice\naccounts=research\n");
    struct policy none = {0};
    struct policy_job job = {.user = "alice", .partition = "gpu", .ranks = 1024, .gpus = 16};
    check(&p, &job, NULL);
    check(&none, &(struct policy_job){0}, NULL);
    job.ranks = 1025;
    check(&p, &job, "1025 ranks are asked for, 1024 are the most that this site allows");
    job.ranks = 0;
    check(&p, &job, "CliFilterPlugins=prism");
    job.ranks = 8;
    job.gpus = 17;
    check(&p, &job, "17 GPUs are asked for, 16 are the most");
    job.gpus = 0;
    check(&p, &job, "does not tell its GPUs");
    job.gpus = 1;
    job.partition = "gpu,cpu";
    check(&p, &job, "not allowed in partition cpu: use --partition=gpu,debug");
    job.partition = "gpu,debug";
    job.user = "bob";
    check(&p, &job, "not allowed for user bob with no account named: it is for the accounts research");
    job.account = "teaching";
    check(&p, &job, "with account teaching");
    job.account = "research";
    check(&p, &job, NULL);
    job.account = NULL;
    job.user = "alic";
    check(&p, &job, "not allowed for user alic");
    struct policy only_users = parsed("[policy]\nusers=alice\n");
    check(&only_users, &job, "not allowed for user alic on this cluster");
    struct policy_job many = {.ranks = 65, .rank_licences = 64};
    check(&none, &many, "64 prism_rank licences are all");
    many.rank_licences = 65;
    many.gpu_licences = 64;
    check(&none, &many, "64 prism_gpu licences are all");
    struct policy jobs_only = parsed("[policy]\nplain-jobs = refuse\n");
    check(&jobs_only, &(struct policy_job){.ranks = 8, .is_plain = true}, NULL); /* a job that asks now */
    check(&jobs_only, &(struct policy_job){.ranks = 8, .is_step = true}, NULL);
    check(&jobs_only, &(struct policy_job){.ranks = 8, .is_step = true, .is_plain = true}, "this site emulates only in jobs");
    check(&none, &(struct policy_job){.ranks = 8, .is_step = true, .is_plain = true}, NULL);
    assert_true(policy_limits_steps(&jobs_only) && policy_limits_steps(&p) && !policy_limits_steps(&none));
    struct policy defaults = parsed("[policy]\ndefault-qos = q\nlicenses = none\nplain-jobs = allow\n");
    assert_false(policy_limits_steps(&defaults));
}

static void test_strings(void **state)
{
    char out[128];
    assert_int_equal(policy_licences(NULL, 64, true, true, out, sizeof out), 0);
    assert_string_equal(out, "prism_rank:64,prism_gpu:64");
    assert_int_equal(policy_licences("", 64, true, false, out, sizeof out), 0);
    assert_string_equal(out, "prism_rank:64");
    assert_int_equal(policy_licences("matlab:2,prism_rank:1,prism_ranks,fluent@db:3", 8, true, true, out, sizeof out), 0);
    assert_string_equal(out, "matlab:2,prism_ranks,fluent@db:3,prism_rank:8,prism_gpu:8");
    assert_int_equal(policy_licences("a|b", 8, true, true, out, sizeof out), -1);
    assert_int_equal(policy_licences("matlab:2", 8, true, true, out, 16), -1);
    assert_string_equal(out, "");
    struct policy_shape s = {.world = 8, .nodes = 1, .gpus_per_node = 8, .devices = 2, .sandbox_ranks = 1, .sandbox = "0",
                             .assistants = -1, .phase = "auto"};
    assert_int_equal(policy_admin_comment("by hand", &s, out, sizeof out), 0);
    assert_string_equal(out, "by hand; prism:world=8,nodes=1,gpus_per_node=8,devices=2,sandbox_ranks=1,sandbox=0,phase=auto");
    assert_int_equal(policy_admin_comment("by hand", &s, out, 8), -1);
    assert_int_equal(policy_declared("prism_rank:1000,prism_gpu,matlab:5", "prism_rank"), 1000);
    assert_int_equal(policy_declared("prism_rank:1000,prism_gpu,matlab:5", "prism_gpu"), 1);
    assert_int_equal(policy_declared("prism_ranks:1000", "prism_rank"), 0);
    assert_int_equal(policy_declared("prism_rank*7", "prism_rank"), 7);
    assert_int_equal(policy_declared(NULL, "prism_rank"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),    cmocka_unit_test(test_file_refused), cmocka_unit_test(test_request),
        cmocka_unit_test(test_fuzzed),  cmocka_unit_test(test_decisions),    cmocka_unit_test(test_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
