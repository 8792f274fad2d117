#include "preload/gate/early.h"

#include <stdlib.h>

#include "preload/environment.h"
#include "preload/gate/gate.h"
#include "preload/memory/park.h"
#include "preload/preload.h"
#include "preload/real.h"

#define RESULTS 128u /* operations of one communicator in a row; a longer row begins anew */

struct span {
    uintptr_t begin, end;
};

struct early {
    struct stream side; /* T; only its handle is used */
    CUevent mark;       /* E */
    bool follows;       /* T waits for all that S waits for but gates */
    uint32_t comm;      /* of the operations since E */
    struct span results[RESULTS]; /* theirs */
    uint32_t n;
};

static bool is_possible(const struct gate *g)
{
    CUstream s = g->stream->handle;
    if (session.phase != PHASE_CAPTURE || !residence_is_on() || session.board || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD ||
        streams_any_capture())
        return false;
    for (uint32_t i = 1; i < g->n; i++)
        if (g->operations[i].stream != g->operations[0].stream)
            return false;
    return true;
}

static bool overlaps(const struct early *e, uintptr_t begin, uint64_t bytes)
{
    for (uint32_t i = 0; bytes && i < e->n; i++)
        if (begin < e->results[i].end && e->results[i].begin < begin + bytes)
            return true;
    return false;
}

static void note_results(struct early *e, const struct gate *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->parts[i].out_bytes) {
            uintptr_t begin = (uintptr_t)g->operations[i].recv;
            e->results[e->n++] = (struct span){begin, begin + g->parts[i].out_bytes};
        }
}

bool early_may(const struct gate *g)
{
    const struct early *e = g->stream->early;
    if (!e || !e->follows || !is_possible(g) || !park_has_only_gates(g->stream->handle) || e->comm != g->operations[0].comm->number || e->n + g->n > RESULTS ||
        !g->stream->gated || slots_opened(g->stream->slot, g->stream->generation))
        return false;
    for (uint32_t i = 0; i < g->n; i++)
        if (g->operations[i].op == PRISM_OP_SEND || g->operations[i].op == PRISM_OP_RECV ||
            overlaps(e, (uintptr_t)g->operations[i].send, g->parts[i].in_bytes))
            return false;
    return true;
}

/* Half of the streams that can be stopped at once are the program's own. */
static struct early *create(void)
{
    struct early *e = NULL;
    if (park_lanes() >= PARK_LANES(environment_queues()) / 2)
        return NULL;
    if (!(e = calloc(1, sizeof *e)))
        abort();
    CUDA_MUST(driver(cuStreamCreate)(&e->side.handle, CU_STREAM_NON_BLOCKING));
    CUDA_MUST(driver(cuEventCreate)(&e->mark, CU_EVENT_DISABLE_TIMING));
    return e;
}

static void wait_on_side(struct early *e, CUevent event)
{
    struct park_wait park = park_wait_begin(event, e->side.handle);
    CUDA_MUST(driver(cuStreamWaitEvent)(e->side.handle, event, CU_EVENT_WAIT_DEFAULT));
    park_wait_end(park);
}

void early_follow(const struct gate *g)
{
    struct stream *s = g->stream;
    if (s->early)
        s->early->follows = false;
    if (!is_possible(g) || g->n > RESULTS || (!s->early && !(s->early = create())) || !park_begin_row(s->handle))
        return;
    struct early *e = s->early;
    park_record(e->mark, s->handle);
    CUDA_MUST(driver(cuEventRecord)(e->mark, s->handle));
    wait_on_side(e, e->mark);
    e->follows = true;
    e->comm = g->operations[0].comm->number;
    e->n = 0;
    note_results(e, g);
}

void early_arrive(const struct gate *g)
{
    struct gate side = *g;
    side.stream = &g->stream->early->side;
    gate_copy_inputs(&side);
    gate_pass(&side, GATE_ARRIVE);
    note_results(g->stream->early, g);
}

void early_wait(struct stream *s, CUevent event)
{
    if (!s->early || !s->early->follows)
        return;
    if (streams_any_capture())
        early_break(s);
    else
        wait_on_side(s->early, event);
}

void early_break(struct stream *s)
{
    if (s->early)
        s->early->follows = false;
}

void early_forget(struct stream *s)
{
    struct early *e = s->early;
    if (!e)
        return;
    park_destroy(e->side.handle);
    park_forget_event(e->mark);
    driver(cuStreamDestroy)(e->side.handle);
    driver(cuEventDestroy)(e->mark);
    free(e);
    s->early = NULL;
}
