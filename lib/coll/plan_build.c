#include "coll/plan_private.h"

#include <stdlib.h>
#include <string.h>

const struct coll_place place_none = {COLL_BUFFER_NONE, 0, 0};

static void *grown(void *list, size_t n, size_t size)
{
    if (n & (n - 1) || (n && n < 4)) /* room is 0, then 4, then powers of two */
        return list;
    list = realloc(list, (n ? 2 * n : 4) * size);
    if (!list)
        abort();
    return list;
}

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    if (!p)
        abort();
    return p;
}

struct coll_place place_at(enum coll_buffer buffer, uint32_t part, uint64_t offset)
{
    return (struct coll_place){buffer, part, offset};
}

void side_call(struct coll_side *side, struct coll_call call)
{
    side->calls = grown(side->calls, side->ncalls, sizeof *side->calls);
    side->calls[side->ncalls++] = call;
}

uint64_t side_piece(struct coll_side *side, struct coll_piece piece)
{
    piece.target = side->payload_count;
    side->pieces = grown(side->pieces, side->npieces, sizeof *side->pieces);
    side->pieces[side->npieces++] = piece;
    side->payload_count += piece.count;
    return piece.target;
}

struct coll_place side_scratch(struct coll_side *side, uint64_t count)
{
    if (count > side->scratch_count)
        side->scratch_count = count;
    return place_at(COLL_BUFFER_SCRATCH, 0, 0);
}

static int check(const char *name, int size, const int *sandbox, int nsandbox, int assistants,
                 struct prism_error *err)
{
    if (size < 1 || nsandbox < 1 || nsandbox > size)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED, "%s: %d sandbox ranks in a communicator of %d",
                               name, nsandbox, size);
    if (assistants < 1 || assistants > COLL_ASSISTANTS_MAX)
        return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                               "%s: %d assistants for one communicator; 1 or %d can be used", name,
                               assistants, COLL_ASSISTANTS_MAX);
    for (int i = 0; i < nsandbox; i++)
        if (sandbox[i] < 0 || sandbox[i] >= size || (i && sandbox[i] <= sandbox[i - 1]))
            return prism_error_set(err, PRISM_EXIT_UNSUPPORTED,
                                   "%s: sandbox rank %d is outside its communicator of %d or out of order",
                                   name, sandbox[i], size);
    return 0;
}

/* Virtual rank number v (counted among all virtual ranks) belongs to this assistant. */
static int assistant_of(const struct coll_plan *plan, int v)
{
    return (int)((int64_t)v * plan->nassistants / (plan->size - plan->nsandbox));
}

static void deal(struct layout *layout)
{
    struct coll_plan *plan = layout->plan;
    int v = 0;
    struct run *run = NULL;
    for (int rank = 0; rank < plan->size; rank++) {
        if (layout->participant[rank] >= 0) {
            run = NULL;
            continue;
        }
        int k = assistant_of(plan, v++);
        struct coll_side *side = &plan->sides[plan->nsandbox + k];
        layout->participant[rank] = plan->nsandbox + k;
        side->rank = side->rank < 0 ? rank : side->rank;
        if (run && run->assistant == k) {
            run->n++;
            continue;
        }
        run = &layout->runs[layout->nruns++];
        *run = (struct run){k, rank, 1};
    }
}

int layout_init(struct layout *layout, const char *name, int size, const int *sandbox, int nsandbox,
                int assistants, struct prism_error *err)
{
    *layout = (struct layout){0};
    if (check(name, size, sandbox, nsandbox, assistants, err))
        return -1;
    struct coll_plan *plan = layout->plan = zeroed(1, sizeof *plan);
    int nvirtual = size - nsandbox;
    plan->size = size;
    plan->nsandbox = nsandbox;
    plan->nassistants = assistants < nvirtual ? assistants : nvirtual;
    plan->sides = zeroed((size_t)(nsandbox + plan->nassistants), sizeof *plan->sides);
    layout->participant = zeroed((size_t)size, sizeof *layout->participant);
    layout->runs = zeroed((size_t)nvirtual, sizeof *layout->runs);
    memset(layout->participant, -1, (size_t)size * sizeof *layout->participant);
    for (int i = 0; i < nsandbox; i++) {
        layout->participant[sandbox[i]] = i;
        plan->sides[i].rank = sandbox[i];
    }
    for (int k = 0; k < plan->nassistants; k++)
        plan->sides[nsandbox + k].rank = -1;
    deal(layout);
    return 0;
}

void layout_clear(struct layout *layout)
{
    free(layout->participant);
    free(layout->runs);
}

int coll_plan_participant(const struct coll_plan *plan, int rank)
{
    int low = 0, high = plan->nsandbox; /* the first sandbox rank that is not below rank */
    while (low < high) {
        int middle = (low + high) / 2;
        if (plan->sides[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    bool sandbox = low < plan->nsandbox && plan->sides[low].rank == rank;
    return sandbox ? low : plan->nsandbox + assistant_of(plan, rank - low);
}

bool layout_is_sandbox(const struct layout *layout, int rank)
{
    return layout->participant[rank] < layout->plan->nsandbox;
}

int layout_assistant(const struct layout *layout, int k)
{
    return layout->plan->nsandbox + k;
}

void coll_plan_destroy(struct coll_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->nsandbox + plan->nassistants; i++) {
        free(plan->sides[i].calls);
        free(plan->sides[i].pieces);
    }
    free(plan->sides);
    free(plan);
}
