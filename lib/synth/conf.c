/* conf.c - a job from a libconfig file: tables of names, every unknown one an error. */
#include <libconfig.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coll/types.h"
#include "synth/private.h"

#define REQUIRED (-1.0)

struct reader {
    const char *path;
    struct prism_error *err;
};

struct number { /* of a group of the file */
    const char *name;
    double value; /* where the file does not say; REQUIRED: it must */
    double least, most;
};

static int wrong(const struct reader *r, const config_setting_t *at, const char *name, const char *what)
{
    return prism_error_set(r->err, PRISM_EXIT_USAGE, "%s, line %u: %s: %s; docs/synth.md lists what there is", r->path,
                           at ? config_setting_source_line(at) : 0, name, what);
}

static bool number_of(const config_setting_t *s, double *value)
{
    switch (config_setting_type(s)) {
    case CONFIG_TYPE_INT: *value = config_setting_get_int(s); return true;
    case CONFIG_TYPE_INT64: *value = (double)config_setting_get_int64(s); return true;
    case CONFIG_TYPE_FLOAT: *value = config_setting_get_float(s); return true;
    case CONFIG_TYPE_BOOL: *value = config_setting_get_bool(s); return true;
    default: return false;
    }
}

/* Every number of the table from the group, which may be NULL (absent). others: names that are read elsewhere. */
static int read_numbers(const struct reader *r, const config_setting_t *group, const char *name, struct number *table, size_t n,
                        const char *const *others)
{
    if (group && !config_setting_is_group(group))
        return wrong(r, group, config_setting_name(group), "is no group, { … }");
    for (size_t i = 0; i < n; i++) {
        config_setting_t *s = group ? config_setting_get_member(group, table[i].name) : NULL;
        if (!s && table[i].value == REQUIRED)
            return wrong(r, group, table[i].name, "is missing");
        if (!s)
            continue;
        if (!number_of(s, &table[i].value) || !(table[i].value >= table[i].least && table[i].value <= table[i].most))
            return wrong(r, s, table[i].name, "is no number, or out of range");
    }
    for (int i = 0, all = group ? config_setting_length(group) : 0; i < all; i++) {
        const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
        const char *key = config_setting_name(s);
        bool known = false;
        for (size_t k = 0; k < n && !known; k++)
            known = !strcmp(key, table[k].name);
        for (size_t k = 0; others && others[k] && !known; k++)
            known = !strcmp(key, others[k]);
        if (!known)
            return wrong(r, s, key, name);
    }
    return 0;
}

/* ---- Steps that the file lists ---- */

static int group_of(const char *name)
{
    static const char *const names[SYNTH_GROUPS] = {"none", "tp", "cp", "dp", "ep", "edp", "world", NULL, NULL};
    for (int i = 0; name && i < SYNTH_GROUPS; i++)
        if (names[i] && !strcmp(name, names[i]))
            return i;
    return -1;
}

static int collective_of(const char *name)
{
    for (int op = 1; name && op < PRISM_OP_SEND; op++)
        if (!strcmp(prism_op_name(op), name))
            return op;
    return 0;
}

static int read_step(const struct reader *r, const config_setting_t *s, struct synth_step *step)
{
    static const char *const others[] = {"op", "group", NULL};
    enum { MICROSECONDS, BYTES, NUMBERS };
    struct number n[NUMBERS] = {{"compute_us", 0, 0, 1e9}, {"bytes", 0, 0, 1e15}};
    const char *op = NULL, *group = "none";
    if (read_numbers(r, s, "is no part of a step", n, NUMBERS, others))
        return -1;
    config_setting_lookup_string(s, "op", &op);
    config_setting_lookup_string(s, "group", &group);
    *step = (struct synth_step){n[MICROSECONDS].value * 1e3, collective_of(op), (enum synth_group)group_of(group),
                                (uint64_t)n[BYTES].value};
    if ((int)step->group < 0)
        return wrong(r, s, group, "is no group: tp, cp, dp, ep, edp, world or none");
    if (step->group != SYNTH_NONE && !step->op)
        return wrong(r, s, op ? op : "op", "is no collective operation (AllReduce, AllGather, …)");
    return 0;
}

static int read_steps(const struct reader *r, const config_setting_t *group, const char *name, struct synth_steps *steps)
{
    const config_setting_t *list = group ? config_setting_get_member(group, name) : NULL;
    if (list && config_setting_type(list) != CONFIG_TYPE_LIST)
        return wrong(r, list, name, "is no list of steps, ( { … }, … )");
    for (int i = 0, n = list ? config_setting_length(list) : 0; i < n; i++) {
        struct synth_step step;
        const config_setting_t *s = config_setting_get_elem(list, (unsigned)i);
        if (!config_setting_is_group(s))
            return wrong(r, s, name, "has an element that is no step, { … }");
        if (read_step(r, s, &step))
            return -1;
        synth_steps_add(steps, step);
    }
    return 0;
}

static int read_listed(const struct reader *r, const config_setting_t *steps, struct synth_job *j)
{
    static const char *const others[] = {"forward", "backward", "end", NULL};
    struct number n[] = {{"stage_bytes", 0, 0, 1e15}, {"grad_bytes", 0, 0, 1e15}};
    if (read_numbers(r, steps, "is no part of steps", n, 2, others) || read_steps(r, steps, "forward", &j->forward) ||
        read_steps(r, steps, "backward", &j->backward) || read_steps(r, steps, "end", &j->end))
        return -1;
    if (!j->forward.n && !j->backward.n && !j->end.n)
        return wrong(r, steps, "steps", "has no step: forward, backward and end are lists of them");
    j->stage_bytes = (uint64_t)n[0].value;
    j->layer_grad_bytes = (uint64_t)n[1].value;
    return 0;
}

/* ---- Steps that follow from a model ---- */

static int read_model(const struct reader *r, const config_setting_t *model, double flops, double memory_bandwidth,
                      struct synth_job *j)
{
    enum { HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB, SEQUENCE, MICRO_BATCH, EXPERTS, TOP_K, SP, OVERLAP, IMBALANCE, NUMBERS };
    struct number n[NUMBERS] = {
        [HIDDEN] = {"hidden", REQUIRED, 1, 1e7},  [HEADS] = {"heads", REQUIRED, 1, 1e5},
        [KV_HEADS] = {"kv_heads", 0, 1, 1e5},     [HEAD_DIM] = {"head_dim", 0, 1, 1e5},
        [FFN] = {"ffn", REQUIRED, 1, 1e8},        [VOCAB] = {"vocab", 0, 0, 1e8},
        [SEQUENCE] = {"sequence", REQUIRED, 1, 1e8}, [MICRO_BATCH] = {"micro_batch", 1, 1, 1e6},
        [EXPERTS] = {"experts", 0, 0, 1e6},       [TOP_K] = {"top_k", 1, 1, 1e6},
        [SP] = {"sequence_parallel", 1, 0, 1},    [OVERLAP] = {"overlap_grads", 0, 0, 1},
        [IMBALANCE] = {"imbalance", 0, 0, 0.99}};
    if (read_numbers(r, model, "is no part of a model", n, NUMBERS, NULL))
        return -1;
    struct synth_model m = {
        .hidden = n[HIDDEN].value, .heads = n[HEADS].value,
        .kv_heads = n[KV_HEADS].value > 0 ? n[KV_HEADS].value : n[HEADS].value,
        .head_dim = n[HEAD_DIM].value > 0 ? n[HEAD_DIM].value : n[HIDDEN].value / n[HEADS].value,
        .ffn = n[FFN].value, .vocab = n[VOCAB].value, .sequence = n[SEQUENCE].value, .micro_batch = n[MICRO_BATCH].value,
        .experts = n[EXPERTS].value, .top_k = n[TOP_K].value, .sequence_parallel = n[SP].value > 0,
        .overlap_grads = n[OVERLAP].value > 0, .flops = flops, .memory_bandwidth = memory_bandwidth};
    j->imbalance = n[IMBALANCE].value;
    synth_from_model(j, &m);
    return 0;
}

/* ---- The cluster ---- */

static int read_cluster(const struct reader *r, const config_setting_t *root, struct synth_job *j, double *flops, double *memory)
{
    enum { NODE, FLOPS, MEMORY, LAUNCH, STEP_IN, STEP_OUT, IN, OUT, EAGER, NUMBERS };
    const config_setting_t *group = config_setting_get_member(root, "cluster");
    coll_network_default(&j->network);
    struct coll_link_profile *in = &j->network.link[COLL_LINK_INTRA], *out = &j->network.link[COLL_LINK_INTER];
    struct number n[NUMBERS] = {
        [NODE] = {"gpus_per_node", 8, 1, 1e5},       [FLOPS] = {"flops", 4e14, 1, 1e20},
        [MEMORY] = {"memory_bandwidth", 4e12, 1, 1e16}, [LAUNCH] = {"launch_us", in->launch_s * 1e6, 0, 1e9},
        [STEP_IN] = {"intra_step_us", in->step_s * 1e6, 0, 1e9}, [STEP_OUT] = {"inter_step_us", out->step_s * 1e6, 0, 1e9},
        [IN] = {"intra_bandwidth", in->bandwidth_Bps, 1, 1e18}, [OUT] = {"inter_bandwidth", out->bandwidth_Bps, 1, 1e18},
        [EAGER] = {"eager_bytes", (double)in->eager_bytes, 0, 1e15}};
    static const char *const others[] = {"tree_allreduce", NULL};
    if (read_numbers(r, group, "is no part of a cluster", n, NUMBERS, others))
        return -1;
    j->gpus_per_node = (uint32_t)n[NODE].value;
    *flops = n[FLOPS].value;
    *memory = n[MEMORY].value;
    in->launch_s = out->launch_s = n[LAUNCH].value / 1e6;
    in->step_s = n[STEP_IN].value / 1e6;
    out->step_s = n[STEP_OUT].value / 1e6;
    in->bandwidth_Bps = n[IN].value;
    out->bandwidth_Bps = n[OUT].value;
    in->eager_bytes = out->eager_bytes = (uint64_t)n[EAGER].value;
    int tree;
    if (group && config_setting_lookup_bool(group, "tree_allreduce", &tree))
        j->network.tree_allreduce = tree;
    j->has_network = group != NULL;
    return 0;
}

static int read_layout(const struct reader *r, const config_setting_t *root, struct synth_job *j)
{
    enum { TP, CP, PP, DP, EP, V, M, NUMBERS };
    const config_setting_t *group = config_setting_get_member(root, "layout");
    struct number n[NUMBERS] = {[TP] = {"tp", 1, 1, 1e6}, [CP] = {"cp", 1, 1, 1e6}, [PP] = {"pp", 1, 1, 1e6},
                                [DP] = {"dp", 1, 1, 1e6}, [EP] = {"ep", 1, 1, 1e6}, [V] = {"virtual_stages", 1, 1, 1e4},
                                [M] = {"micro_batches", 1, 1, 1e5}};
    if (read_numbers(r, group, "is no part of a layout", n, NUMBERS, NULL))
        return -1;
    j->tp = (uint32_t)n[TP].value;
    j->cp = (uint32_t)n[CP].value;
    j->pp = (uint32_t)n[PP].value;
    j->dp = (uint32_t)n[DP].value;
    j->ep = (uint32_t)n[EP].value;
    j->virtual_stages = (uint32_t)n[V].value;
    j->micro_batches = (uint32_t)n[M].value;
    return 0;
}

static int read_root(const struct reader *r, const config_setting_t *root, struct synth_job *j)
{
    static const char *const others[] = {"name", "layout", "cluster", "model", "steps", NULL};
    struct number n[] = {{"layers", REQUIRED, 1, 1e6}, {"iterations", 1, 1, 1e4}};
    const config_setting_t *model = config_setting_get_member(root, "model"), *steps = config_setting_get_member(root, "steps");
    const char *name = "synthetic job";
    double flops, memory;
    const config_setting_t *text = config_setting_get_member(root, "name");
    if (text && config_setting_type(text) != CONFIG_TYPE_STRING)
        return wrong(r, text, "name", "is no text in quotes");
    config_setting_lookup_string(root, "name", &name);
    j->name = strdup(name);
    if (read_numbers(r, root, "is not known here", n, 2, others) || read_layout(r, root, j) ||
        read_cluster(r, root, j, &flops, &memory))
        return -1;
    j->layers = (uint32_t)n[0].value;
    j->iterations = (uint32_t)n[1].value;
    if (!model == !steps)
        return wrong(r, root, "model, steps", "one of the two is needed");
    return model ? read_model(r, model, flops, memory, j) : read_listed(r, steps, j);
}

int synth_read(const char *path, struct synth_job *job, struct prism_error *err)
{
    struct reader r = {path, err};
    config_t file;
    int rc;
    *job = (struct synth_job){0};
    config_init(&file);
    if (config_read_file(&file, path) == CONFIG_TRUE)
        rc = read_root(&r, config_root_setting(&file), job);
    else
        rc = prism_error_set(err, PRISM_EXIT_USAGE, "%s, line %d: %s", path, config_error_line(&file), config_error_text(&file));
    config_destroy(&file);
    if (rc)
        synth_clear(job);
    return rc;
}

void synth_clear(struct synth_job *job)
{
    free(job->name);
    free(job->forward.list);
    free(job->backward.list);
    free(job->end.list);
    coll_network_clear(&job->network);
    *job = (struct synth_job){0};
}
