/* folding_options.c - a folded capture from the options, and against the trace that is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "prismd/folding/folding.h"
#include "spank/parse.h"

struct fold *folding_make(const char *layout, const char *names, uint32_t world, const uint32_t *sandbox, uint32_t nsandbox,
                          struct prism_error *err)
{
    struct parse_layout l;
    struct prism_error why = {0};
    struct fold_dimension dimensions[FOLD_DIMENSIONS_MAX] = {0};
    if (parse_layout(layout, &l, &why) || parse_fold(names, &l, &why)) {
        prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_LAYOUT=%.80s, PRISM_FOLD=%.80s: %s", layout, names, why.text);
        return NULL;
    }
    if (l.product != world) {
        prism_error_set(err, PRISM_EXIT_USAGE, "PRISM_LAYOUT=%.80s has %llu ranks, the emulated job %u", layout,
                        (unsigned long long)l.product, world);
        return NULL;
    }
    for (size_t i = 0; i < l.ndimensions; i++) {
        snprintf(dimensions[i].name, sizeof dimensions[i].name, "%s", l.dimension[i].name);
        dimensions[i].size = l.dimension[i].size;
        size_t len = strlen(dimensions[i].name);
        for (const char *p = names; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
            dimensions[i].folded |= strcspn(p, ",") == len && !strncmp(p, dimensions[i].name, len);
    }
    return fold_create(dimensions, (uint32_t)l.ndimensions, sandbox, nsandbox);
}

uint32_t *folding_place(const struct conf *c)
{
    const struct fold *f = c->fold;
    uint32_t *node = malloc((f->nlive + 1u) * sizeof *node), *by_rank = malloc(f->world * sizeof *by_rank), logical = 0;
    if (!node || !by_rank)
        abort();
    for (uint32_t i = 0; i < f->nlive; i++)
        logical += !i || f->live[i] / c->gpus_per_node != f->live[i - 1] / c->gpus_per_node;
    for (uint32_t i = 0, at = 0; i < f->nlive; i++) {
        at += i && f->live[i] / c->gpus_per_node != f->live[i - 1] / c->gpus_per_node;
        node[i] = (uint32_t)(logical < c->nodes ? (uint64_t)i * c->nodes / f->nlive : (uint64_t)at * c->nodes / logical);
    }
    for (uint32_t r = 0; r < f->world; r++)
        by_rank[r] = node[f->index[r]];
    free(node);
    return by_rank;
}

static int check_sandbox(const struct conf *c, const struct fold *f, struct prism_error *err)
{
    for (uint32_t i = 0; i < c->nsandbox; i++)
        if (!fold_is_live(f, c->sandbox[i]))
            return prism_error_set(err, PRISM_EXIT_TRACE,
                                   "rank %u did not run in the folded capture of %s, rank %u did for it: name that one with "
                                   "--prism-sandbox, or capture again into another --prism-trace",
                                   c->sandbox[i], c->trace, f->representative[c->sandbox[i]]);
    return 0;
}

int folding_agree(struct conf *c, const struct trace_manifest *m, struct prism_error *err)
{
    bool was = m->fold && *m->fold, asked = c->fold_names != NULL;
    if (was && ((asked && strcmp(c->fold_names, m->fold)) || (c->layout && strcmp(c->layout, m->layout))))
        return prism_error_set(err, PRISM_EXIT_TRACE,
                               "the trace %s was captured with --prism-layout=%s --prism-fold=%s, not --prism-layout=%s%s%s: leave the "
                               "options out, or capture again into another --prism-trace",
                               c->trace, m->layout, m->fold, c->layout ? c->layout : "", asked ? " --prism-fold=" : "",
                               asked ? c->fold_names : "");
    if (!was && asked)
        log_info("all ranks ran in the capture of %s: --prism-fold changes nothing", c->trace);
    fold_destroy(c->fold);
    c->fold = NULL;
    if (!was)
        return 0;
    if (!c->layout)
        c->layout = strdup(m->layout);
    c->fold = folding_make(m->layout, m->fold, m->world, m->sandbox, m->nsandbox, err);
    return c->fold ? check_sandbox(c, c->fold, err) : -1;
}

uint32_t *folding_live(const struct conf *c, uint32_t *n)
{
    *n = c->fold ? c->fold->nlive : c->world;
    uint32_t *live = malloc(*n * sizeof *live);
    if (!live)
        abort();
    for (uint32_t i = 0; i < *n; i++)
        live[i] = c->fold ? c->fold->live[i] : i;
    return live;
}

void folding_tell_capture(const struct conf *c, uint32_t n)
{
    const char *s = c->nodes > 1 ? "s" : "";
    if (c->fold)
        log_info("capturing %u of %u ranks (folded: %s) on %u node%s", n, c->world, c->fold_names, c->nodes, s);
    else
        log_info("capturing %u ranks on %u node%s", n, c->nodes, s);
}

int folding_follow(struct conf *c, struct prism_error *err)
{
    struct trace_manifest m;
    int rc = trace_manifest_read(c->trace, &m, err);
    if (!rc && m.fold && !c->fold) {
        c->fold = folding_make(m.layout, m.fold, m.world, m.sandbox, m.nsandbox, err);
        rc = c->fold ? 0 : -1;
    }
    trace_manifest_clear(&m);
    return rc;
}

void folding_environment(const struct conf *c)
{
    char all[16];
    snprintf(all, sizeof all, "%u", c->world);
    if (c->fold)
        setenv("TORCH_NCCL_RANKS_PER_ROOT", all, 0); /* ProcessGroupNCCL.hpp; the default is 128 */
}
