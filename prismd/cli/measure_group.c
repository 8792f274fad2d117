/* measure_group.c - see measure_group.h. */
#include "measure_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define SMALLEST ((size_t)1 << 10)
#define EAGER_SMALLEST ((size_t)256)

/* --- which groups --- */

static void add_group(struct measure_group **list, int *n, const struct measure_world *w,
                      const int *ranks, int size)
{
    if (size < 2)
        return;
    for (int i = 0; i < *n; i++)
        if ((*list)[i].size == size && memcmp((*list)[i].ranks, ranks, (size_t)size * sizeof(*ranks)) == 0)
            return;
    *list = realloc(*list, (size_t)(*n + 1) * sizeof(**list));
    struct measure_group *group = &(*list)[(*n)++];
    *group = (struct measure_group){ .size = size, .ranks = malloc((size_t)size * sizeof(int)) };
    memcpy(group->ranks, ranks, (size_t)size * sizeof(int));
    for (int i = 0; i < size; i++) {
        int seen = 0;
        for (int k = 0; k < i; k++)
            seen |= w->node_of[ranks[k]] == w->node_of[ranks[i]];
        group->nodes += !seen;
    }
}

/* At most each ranks of each of the first nodes nodes. */
static int choose(const struct measure_world *w, int nodes, int each, int *ranks)
{
    int n = 0;
    for (int node = 0; node < nodes; node++)
        for (int r = 0, taken = 0; r < w->size && taken < each; r++)
            if (w->node_of[r] == node) {
                ranks[n++] = r;
                taken++;
            }
    return n;
}

struct measure_group *measure_groups(const struct measure_world *w, int *n)
{
    struct measure_group *list = NULL;
    int *ranks = malloc((size_t)w->size * sizeof(*ranks)), most = choose(w, 1, w->size, ranks);
    *n = 0;
    for (int nodes = 1; nodes < 2 * w->nodes; nodes *= 2)
        for (int each = 1; each < 2 * most; each *= 2)
            add_group(&list, n, w, ranks, choose(w, nodes < w->nodes ? nodes : w->nodes, each, ranks));
    free(ranks);
    return list;
}

void measure_groups_free(struct measure_group *groups, int n)
{
    for (int i = 0; i < n; i++)
        free(groups[i].ranks);
    free(groups);
}

/* --- one group --- */

struct session {
    struct measure_world *w;
    const struct measure_group *group;
    int index, rank; /* of the group; this process in it */
    unsigned serial;
    struct measure_timer timer;
    struct measure_result *result;
};

/* Every member brings its repetitions; the first rank decides on the time and tells it. */
static int agree(struct session *s, enum measure_op op, const float *mine, int repeats, double *seconds,
                 double *spread, struct prism_error *err)
{
    char name[64];
    double answer[2];
    snprintf(name, sizeof(name), "time/%d/%u/%d", s->index, s->serial, s->rank);
    if (measure_world_put(s->w, name, mine, (size_t)repeats * sizeof(*mine), err) != 0)
        return -1;
    if (s->rank == 0) {
        double ends[MEASURE_REPEATS];
        float theirs[MEASURE_REPEATS];
        /* Symmetric operations: the rank that started last saw the time from the last start. Others: the receiver's. */
        bool symmetric = op != MEASURE_BROADCAST && op != MEASURE_SEND_RECV;
        int members = op == MEASURE_SEND_RECV ? 2 : s->group->size;
        for (int m = 0; m < members; m++) {
            snprintf(name, sizeof(name), "time/%d/%u/%d", s->index, s->serial, m);
            if (measure_world_get(s->w, name, theirs, (size_t)repeats * sizeof(*theirs), err) != 0)
                return -1;
            for (int i = 0; i < repeats; i++)
                if (m == 0 || (symmetric ? theirs[i] < ends[i] : theirs[i] > ends[i]))
                    ends[i] = theirs[i];
        }
        double low = ends[0], high = ends[0];
        for (int i = 1; i < repeats; i++) {
            low = ends[i] < low ? ends[i] : low;
            high = ends[i] > high ? ends[i] : high;
        }
        answer[0] = median(ends, (size_t)repeats);
        answer[1] = high - low;
    }
    snprintf(name, sizeof(name), "agreed/%d/%u", s->index, s->serial++);
    if (s->rank == 0 ? measure_world_put(s->w, name, answer, sizeof(answer), err)
                     : measure_world_get(s->w, name, answer, sizeof(answer), err))
        return -1;
    *seconds = answer[0];
    *spread = answer[1];
    return 0;
}

static void keep(struct session *s, enum measure_op op, size_t bytes, double seconds, double spread)
{
    struct measure_result *r = s->result;
    if (s->rank != 0)
        return;
    r->samples = realloc(r->samples, (size_t)(r->n + 1) * sizeof(*r->samples));
    if (!r->samples)
        abort();
    r->samples[r->n++] = (struct measure_sample){ .op = op, .size = s->group->size, .nodes = s->group->nodes,
                                                  .bytes = (double)bytes, .seconds = seconds, .spread = spread };
}

static int measure_op(struct session *s, enum measure_op op, const struct measure_options *options,
                      struct prism_error *err)
{
    double seconds = 0, spread;
    float times[MEASURE_REPEATS];
    /* The first use of a size class sets things up in NCCL. */
    if (measure_timer_run(&s->timer, op, SMALLEST, 1, times, err) != 0)
        return -1;
    for (size_t bytes = SMALLEST; bytes <= options->max_bytes && seconds < options->max_seconds / 2; bytes *= 4) {
        /* Equal parts of whole elements for every group size. */
        size_t whole = bytes - bytes % (4 * (size_t)s->group->size);
        int repeats = seconds > options->max_seconds / 8 ? 3 : MEASURE_REPEATS;
        if (whole == 0)
            continue;
        if (measure_timer_run(&s->timer, op, whole, repeats, times, err) != 0 ||
            agree(s, op, times, repeats, &seconds, &spread, err) != 0)
            return -1;
        keep(s, op, whole, seconds, spread);
    }
    return 0;
}

/* Largest power of two whose send ends without its receiver; ends in *eager on the group's first rank. */
static int measure_eager(struct session *s, size_t largest_bytes, double *eager, struct prism_error *err)
{
    double seconds = 0, spread, largest = 0;
    float time;
    for (size_t bytes = EAGER_SMALLEST; bytes <= largest_bytes; bytes *= 2) {
        /* Late by far more than the message takes. */
        if (measure_timer_run(&s->timer, MEASURE_SEND_RECV, bytes, 1, &time, err) != 0 ||
            agree(s, MEASURE_SEND_RECV, &time, 1, &seconds, &spread, err) != 0)
            return -1;
        double late = 0.03 + 4 * seconds;
        if (late > 2)
            break;
        if (measure_timer_late_send(&s->timer, bytes, (unsigned)(late * 1e6), &time, err) != 0)
            return -1;
        time = s->rank == 0 ? time : 0;
        /* agree takes the larger of sender's and receiver's: the receiver brings nothing. */
        if (agree(s, MEASURE_SEND_RECV, &time, 1, &seconds, &spread, err) != 0)
            return -1;
        if (seconds > late / 2)
            break;
        largest = (double)bytes;
    }
    *eager = largest;
    return 0;
}

static int measure_all(struct session *s, const struct measure_options *options, struct prism_error *err)
{
    for (int op = 0; op < MEASURE_OPS; op++)
        if ((op != MEASURE_SEND_RECV || s->group->size == 2) &&
            measure_op(s, (enum measure_op)op, options, err) != 0)
            return -1;
    if (s->group->size != 2)
        return 0;
    return measure_eager(s, options->max_bytes, s->group->nodes == 1 ? &s->result->eager_bytes : &s->result->eager_bytes_nodes,
                         err);
}

static int make_comm(struct session *s, const struct gpu *gpu, ncclComm_t *comm, struct prism_error *err)
{
    char name[64];
    ncclUniqueId id;
    snprintf(name, sizeof(name), "id/%d", s->index);
    if (s->rank == 0)
        GPU_NCCL(gpu, GetUniqueId(&id), err);
    if (s->rank == 0 ? measure_world_put(s->w, name, &id, sizeof(id), err)
                     : measure_world_get(s->w, name, &id, sizeof(id), err))
        return -1;
    GPU_NCCL(gpu, CommInitRank(comm, s->group->size, id, s->rank), err);
    return 0;
}

int measure_group_run(struct measure_world *w, const struct gpu *gpu, const struct measure_group *group, int index,
                      const struct measure_options *options, struct measure_result *result, struct prism_error *err)
{
    struct session s = { .w = w, .group = group, .index = index, .rank = -1, .result = result };
    ncclComm_t comm = NULL;
    for (int i = 0; i < group->size; i++)
        if (group->ranks[i] == w->rank)
            s.rank = i;
    if (make_comm(&s, gpu, &comm, err) != 0)
        return -1;
    int failed = measure_timer_open(&s.timer, gpu, comm, s.rank, group->size, options->max_bytes, err) != 0 ||
                 measure_all(&s, options, err) != 0;
    measure_timer_close(&s.timer);
    gpu->ncclCommDestroy(comm);
    return failed ? -1 : 0;
}
