/* hub_time.c - model times of what was matched: durations, and flows on the links they use. */
#include "softgpu/nccl/hub_private.h"

#include "softgpu/nccl/links.h"
#include "softgpu/nccl/types.h"

struct use {
    const struct hub_comm *comm;
    int64_t start_ns, end_ns;
    int others[SGN_CLASSES]; /* on the busiest link */
    bool adding;
};

static void use_link(struct use *use, int rank, enum sgn_class class, enum sgn_direction direction)
{
    uint64_t link = sgn_link(use->comm->places[rank], class, direction), owner = use->comm->owner;
    if (class == SGN_INTER && sgn_model()->nic_shared)
        owner = sgn_mix(owner, (uint64_t)rank); /* ranks of one node compete for its link */
    if (use->adding) {
        sgn_links_add(link, owner, use->start_ns, use->end_ns);
        return;
    }
    int others = sgn_links_others(link, owner, use->start_ns);
    if (others > use->others[class])
        use->others[class] = others;
}

static void use_path(struct use *use, int from, int to)
{
    enum sgn_class class = sgn_link_class(use->comm->places[from], use->comm->places[to]);
    if (class == SGN_SELF)
        return;
    use_link(use, from, class, SGN_EGRESS);
    use_link(use, to, class, SGN_INGRESS);
}

static void use_all(struct use *use, const struct sgn_task *task)
{
    const struct sgn_ring *ring = &use->comm->ring;
    int n = ring->ranks;
    for (int i = 0; i < n; i++) {
        if (task->kind == SGN_GATHER)
            use_path(use, i, task->peer);
        else if (task->kind == SGN_SCATTER)
            use_path(use, task->peer, i);
        else
            use_path(use, ring->order[i], ring->order[(i + 1) % n]);
    }
    if (task->kind != SGN_ALL_TO_ALL)
        return;
    for (int r = 0; r < n;
         r++) /* the ring has one link of each rank; here every rank uses each class it has */
        for (int other = 0, seen = 0; other < n && seen != 3; other++) {
            enum sgn_class class = sgn_link_class(ring->places[r], ring->places[other]);
            if (class == SGN_SELF || seen & (int)class)
                continue;
            seen |= (int)class;
            use_link(use, r, class, SGN_EGRESS);
            use_link(use, r, class, SGN_INGRESS);
        }
}

void hub_time_collective(struct hub_comm *comm, struct hub_coll *coll, int64_t t0)
{
    struct use use = {.comm = comm, .start_ns = t0};
    double longest = 0;
    if (coll->timed)
        return;
    coll->timed = true;
    sgn_links_lock();
    use_all(&use, &coll->task);
    for (int c = 0; c < SGN_CLASSES; c++)
        coll->share[c] = 1 + use.others[c];
    for (int r = 0; r < comm->ranks; r++) {
        struct sgn_task task = coll->task;
        sgn_task_set_bytes(&task, r, comm->ranks);
        double seconds = sgn_model_seconds(&comm->ring, &task, r, coll->share);
        longest = seconds > longest ? seconds : longest;
        if (!sgn_kind_has_root(task.kind))
            break; /* the same for all */
    }
    use.end_ns = t0 + sgn_model_ns(longest, comm->seed, coll->number);
    use.adding = true;
    use_all(&use, &coll->task);
    sgn_links_unlock();
}

int64_t hub_time_message(struct hub_comm *comm, int source, int destination, uint64_t bytes, uint64_t number,
                         int64_t t0)
{
    struct use use = {.comm = comm, .start_ns = t0};
    enum sgn_class class = sgn_link_class(comm->places[source], comm->places[destination]);
    uint64_t seed = sgn_mix(comm->seed, (uint64_t)source << 32 | (uint64_t)destination);
    if (source == destination)
        return sgn_model_ns(sgn_model_flow(SGN_SELF, bytes, 1), seed, number);
    sgn_links_lock();
    use_path(&use, source, destination);
    int64_t duration = sgn_model_ns(sgn_model_flow(class, bytes, 1 + use.others[class]), seed, number);
    use.end_ns = t0 + duration;
    use.adding = true;
    use_path(&use, source, destination);
    sgn_links_unlock();
    return duration;
}
