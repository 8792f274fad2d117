/* launcher.c - which command lines are torchrun, and what runs in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/launcher.h"

struct launch_case {
    const char *line, *want; /* want NULL: not torchrun */
    unsigned nnodes, per_node;
    bool python;
};

static const struct launch_case cases[] = {
    {"python3 /opt/bin/torchrun --nnodes 1024 --nproc-per-node 8 train.py --lr 3", "python3 -u train.py --lr 3", 1024, 8, true},
    {"/v/bin/python torchrun --nnodes=2 --nproc_per_node=8 --rdzv-endpoint=a:1 --rdzv_backend c10d t.py", "/v/bin/python -u t.py", 2, 8, true},
    {"python -u -m torch.distributed.run --standalone --nproc-per-node=gpu t.py a", "python -u t.py a", 1, 0, true},
    {"python -m torch.distributed.launch --use-env --nnodes 1:4 --nproc-per-node auto -m pkg.train x", "python -u -m pkg.train x", 4, 0, true},
    {"python torchrun --no-python --nproc-per-node 4 ./looper fault 3", "./looper fault 3", 1, 4, false},
    {"python torchrun --module --max-restarts 3 pkg", "python -u -m pkg", 1, 1, true},
    {"python train.py torchrun", NULL, 0, 0, false},
    {"python -c torchrun x.py", NULL, 0, 0, false},
    {"python torchrun --help", NULL, 0, 0, false},
    {"python torchrun", NULL, 0, 0, false},
    {"python torchrun --nnodes", NULL, 0, 0, false},
    {"python -m pytest torchrun", NULL, 0, 0, false},
    {"bash torchrun x.py", NULL, 0, 0, false},
    {"python", NULL, 0, 0, false},
};

static void lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], joined[256] = "", *argv[32] = {0}, *save = NULL;
        struct launcher l;
        int n = 0;
        snprintf(text, sizeof text, "%s", cases[i].line);
        for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
            argv[n++] = word;
        bool is = launcher_parse(argv, &l);
        if (is != (cases[i].want != NULL))
            fail_msg("case %zu: %d", i, is);
        if (!is)
            continue;
        for (char **word = l.command; *word; word++)
            snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", *joined ? " " : "", *word);
        assert_string_equal(joined, cases[i].want);
        assert_int_equal(l.nnodes, cases[i].nnodes);
        assert_int_equal(l.per_node, cases[i].per_node);
        assert_int_equal(l.python, cases[i].python);
        free(l.command);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines)};
    unsetenv("PET_NNODES");
    unsetenv("PET_NPROC_PER_NODE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
