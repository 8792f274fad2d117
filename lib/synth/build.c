/* build.c - communicators and ranks of a job. */
#include <stdlib.h>
#include <string.h>

#include "synth/private.h"

uint32_t synth_world(const struct synth_job *job)
{
    return job->tp * job->cp * job->dp * job->pp;
}

struct place {
    uint32_t tp, cp, dp, pp;
};

static struct place place_of(const struct synth_job *j, uint32_t rank)
{
    return (struct place){rank % j->tp, rank / j->tp % j->cp, rank / (j->tp * j->cp) % j->dp, rank / (j->tp * j->cp * j->dp)};
}

/* Which communicator of its kind a rank is in, and in which place of it. */
static void member_of(const struct synth_job *j, enum synth_group group, uint32_t rank, uint32_t *which, uint32_t *index)
{
    struct place p = place_of(j, rank);
    uint32_t row = rank / j->tp; /* of tensor-parallel ranks */
    switch (group) {
    case SYNTH_TP:
        *which = row, *index = p.tp;
        break;
    case SYNTH_CP:
        *which = (p.pp * j->dp + p.dp) * j->tp + p.tp, *index = p.cp;
        break;
    case SYNTH_DP:
        *which = p.pp * j->tp + p.tp, *index = p.dp * j->cp + p.cp;
        break;
    case SYNTH_EP:
        *which = ((p.pp * (j->dp / j->ep) + p.dp / j->ep) * j->cp + p.cp) * j->tp + p.tp, *index = p.dp % j->ep;
        break;
    case SYNTH_EDP:
        *which = (p.pp * j->ep + p.dp % j->ep) * j->tp + p.tp, *index = p.dp / j->ep * j->cp + p.cp;
        break;
    case SYNTH_PP:
    case SYNTH_PP_BACK:
        *which = (p.dp * j->cp + p.cp) * j->tp + p.tp, *index = p.pp;
        break;
    default:
        *which = 0, *index = rank;
    }
}

static uint32_t size_of(const struct synth_job *j, enum synth_group group)
{
    const uint32_t sizes[SYNTH_GROUPS] = {
        [SYNTH_TP] = j->tp, [SYNTH_CP] = j->cp, [SYNTH_DP] = j->dp * j->cp, [SYNTH_EP] = j->ep,
        [SYNTH_EDP] = j->dp / j->ep * j->cp, [SYNTH_WORLD] = synth_world(j), [SYNTH_PP] = j->pp,
        [SYNTH_PP_BACK] = j->virtual_stages > 1 ? j->pp : 1};
    return sizes[group];
}

static bool steps_use(const struct synth_steps *s, enum synth_group group)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->list[i].group == group)
            return true;
    return false;
}

static bool is_used(const struct synth_job *j, enum synth_group group)
{
    return group >= SYNTH_PP || (group == SYNTH_DP && j->layer_grad_bytes) || steps_use(&j->forward, group) ||
           steps_use(&j->backward, group) || steps_use(&j->end, group);
}

static void make_group(struct graph *g, const struct synth_job *j, enum synth_group group, uint32_t local)
{
    uint32_t size = size_of(j, group), n = g->world / size;
    int32_t *ranks = malloc(g->world * sizeof *ranks);
    if (!ranks)
        abort();
    for (uint32_t r = 0; r < g->world; r++) {
        uint32_t which, index;
        member_of(j, group, r, &which, &index);
        ranks[which * size + index] = (int32_t)r;
    }
    for (uint32_t i = 0; i < n; i++) {
        int global = graph_add_comm(g, ranks + (size_t)i * size, size);
        for (uint32_t k = 0; k < size; k++)
            graph_set_member(g, (uint32_t)ranks[i * size + k], local, global, (int32_t)k);
    }
    free(ranks);
}

/* Every rank numbers its communicators alike. */
static void make_groups(struct graph *g, const struct synth_job *j, int32_t local[SYNTH_GROUPS])
{
    int32_t next = 0;
    for (enum synth_group group = SYNTH_NONE; group < SYNTH_GROUPS; group++) {
        bool made = group != SYNTH_NONE && is_used(j, group) && size_of(j, group) > 1;
        local[group] = made ? next++ : -1;
        if (made)
            make_group(g, j, group, (uint32_t)local[group]);
    }
}

/* What lies on other streams ends before the iteration does. */
static void join_streams(struct emit *e)
{
    for (uint32_t s = STREAM_COMPUTE + 1; s < STREAMS; s++)
        if (e->used[s])
            emit_wait(e, STREAM_COMPUTE, emit_record(e, s));
}

static void emit_iteration(struct emit *e)
{
    if (e->job->virtual_stages > 1)
        schedule_interleaved(e);
    else
        schedule_1f1b(e);
    join_streams(e);
    for (uint32_t i = 0; i < e->job->end.n; i++) {
        const struct synth_step *s = &e->job->end.list[i];
        emit_compute(e, s->compute_ns);
        if (s->group != SYNTH_NONE)
            emit_collective(e, STREAM_COMPUTE, s->group, s->op, s->bytes);
    }
    if (e->pending_ns > 0)
        emit_record(e, STREAM_COMPUTE);
}

static void build_rank(struct emit *e)
{
    struct graph_rank *r = &e->graph->ranks[e->rank];
    uint32_t n = e->job->iterations;
    e->nnodes = 0;
    memset(e->ordinals, 0, sizeof e->ordinals);
    memset(e->used, 0, sizeof e->used);
    r->iterations = calloc(n + 1u, sizeof *r->iterations);
    if (!r->iterations)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        emit_iteration(e);
        r->iterations[i + 1] = e->nnodes;
    }
    r->niterations = n;
    graph_alloc_works(e->graph, e->rank);
    if (e->nnodes) /* steps that take no time make none */
        memcpy(r->device_work, e->works, e->nnodes * sizeof *e->works);
}

/* Ranks without works take their class's: only those that differ from the first keep their own. */
static void share_works(struct graph *g)
{
    int64_t *first = malloc((g->nclasses + 1u) * sizeof *first);
    if (!first)
        abort();
    for (uint32_t c = 0; c < g->nclasses; c++)
        first[c] = -1;
    for (uint32_t i = 0; i < g->world; i++) {
        struct graph_rank *r = &g->ranks[i];
        if (first[r->klass] < 0) {
            first[r->klass] = i;
            continue;
        }
        if (memcmp(r->device_work, g->ranks[first[r->klass]].device_work, r->nnodes * sizeof *r->device_work))
            continue;
        free(r->device_work);
        free(r->host_work);
        r->device_work = r->host_work = NULL;
    }
    free(first);
}

static int wrong(struct prism_error *err, const struct synth_job *j, const char *what)
{
    return prism_error_set(err, PRISM_EXIT_USAGE, "%s: %s (docs/synth.md)", j->name ? j->name : "job", what);
}

static int check(const struct synth_job *j, struct prism_error *err)
{
    if (!j->tp || !j->cp || !j->pp || !j->dp || !j->ep || !j->virtual_stages || !j->micro_batches || !j->iterations ||
        !j->gpus_per_node)
        return wrong(err, j, "tp, cp, pp, dp, ep, virtual_stages, micro_batches, iterations and gpus_per_node are at least 1");
    if ((double)j->tp * j->cp * j->pp * j->dp > SYNTH_RANKS_MAX)
        return wrong(err, j, "more than 1048576 ranks");
    if (j->dp % j->ep)
        return wrong(err, j, "ep does not divide dp");
    if (j->virtual_stages > 1 && (j->pp < 2 || j->micro_batches % j->pp))
        return wrong(err, j, "interleaved stages need pp of 2 or more, and micro_batches a multiple of pp");
    if (j->layers < j->pp * j->virtual_stages)
        return wrong(err, j, "fewer layers than stages (pp times virtual_stages)");
    return 0;
}

struct graph *synth_build(const struct synth_job *job, struct prism_error *err)
{
    if (check(job, err))
        return NULL;
    struct graph *g = graph_create(synth_world(job), job->gpus_per_node);
    struct emit e = {.job = job, .graph = g};
    make_groups(g, job, e.local);
    for (e.rank = 0; e.rank < g->world; e.rank++) {
        e.stage = place_of(job, e.rank).pp;
        build_rank(&e);
    }
    free(e.works);
    graph_find_classes(g);
    share_works(g);
    return g;
}
