/* plan_messages.c - plans of groups of sends and receives. */
#include "coll/plan_private.h"

static bool outside(const struct coll_message *m, int size)
{
    return !coll_op_is_p2p(m->op) || m->peer < 0 || m->peer >= size || !coll_datatype_size(m->datatype);
}

static int check(int size, int nsandbox, const struct coll_message *const *messages, const size_t *counts,
                 struct prism_error *err)
{
    for (int i = 0; i < nsandbox; i++)
        for (size_t k = 0; k < counts[i]; k++) {
            const struct coll_message *m = &messages[i][k];
            if (outside(m, size))
                return prism_error_set(
                    err, PRISM_EXIT_UNSUPPORTED,
                    "%s: part %zu of a group (peer %d of %d, datatype %d) cannot be run on a shrunk "
                    "communicator",
                    prism_op_name(m->op), k, m->peer, size, m->datatype);
        }
    return 0;
}

static void call(struct coll_side *side, enum coll_call_kind kind, int peer, struct coll_place from,
                 struct coll_place to, const struct coll_message *m)
{
    side_call(side, (struct coll_call){kind, peer, from, to, m->count, m->datatype, kind != COLL_CALL_COPY});
}

/* The assistant's side of sandbox rank `rank`'s part: targets count in bytes, and elements stay aligned. */
static void answer(struct coll_side *assistant, int participant, int rank, uint32_t part,
                   const struct coll_message *m)
{
    uint64_t size = coll_datatype_size(m->datatype), bytes = m->count * size;
    if (m->op == PRISM_OP_SEND) {
        call(assistant, COLL_CALL_RECV, participant, place_none, side_scratch(assistant, bytes), m);
        return;
    }
    assistant->payload_count += (8 - assistant->payload_count % 8) % 8;
    struct coll_piece piece = {.kind = COLL_PIECE_COPY,
                               .rank = m->peer,
                               .receiver = rank,
                               .part = part,
                               .count = bytes,
                               .datatype = m->datatype};
    uint64_t at = side_piece(assistant, piece);
    assistant->pieces[assistant->npieces - 1].count = m->count;
    call(assistant, COLL_CALL_SEND, participant, place_at(COLL_BUFFER_PAYLOAD, 0, at), place_none, m);
}

/* The n-th receive of rank from itself takes the n-th send to itself. Their sizes differ where one is made of recorded data, the other
 * of the rank's own, as in calibration behind the recorded iterations. */
static void copy_to_self(struct coll_side *side, const struct coll_message *messages, size_t count,
                         size_t part)
{
    size_t before = 0;
    for (size_t k = 0; k < part; k++)
        before += messages[k].op == PRISM_OP_RECV && messages[k].peer == side->rank;
    for (size_t k = 0; k < count; k++) {
        if (messages[k].op != PRISM_OP_SEND || messages[k].peer != side->rank || before-- > 0)
            continue;
        const struct coll_message *less = &messages[messages[k].count < messages[part].count ? k : part];
        call(side, COLL_CALL_COPY, -1, place_at(COLL_BUFFER_SEND, (uint32_t)k, 0),
             place_at(COLL_BUFFER_RECV, (uint32_t)part, 0), less);
        return;
    }
}

static void plan_part(struct layout *layout, int i, const struct coll_message *messages, size_t count,
                      size_t part)
{
    const struct coll_message *m = &messages[part];
    struct coll_side *side = &layout->plan->sides[i];
    int peer = layout->participant[m->peer];
    if (m->peer == side->rank) {
        if (m->op == PRISM_OP_RECV)
            copy_to_self(side, messages, count, part);
        return;
    }
    if (m->op == PRISM_OP_SEND)
        call(side, COLL_CALL_SEND, peer, place_at(COLL_BUFFER_SEND, (uint32_t)part, 0), place_none, m);
    else
        call(side, COLL_CALL_RECV, peer, place_none, place_at(COLL_BUFFER_RECV, (uint32_t)part, 0), m);
    if (!layout_is_sandbox(layout, m->peer))
        answer(&layout->plan->sides[peer], i, side->rank, (uint32_t)part, m);
}

struct coll_plan *coll_plan_messages(int size, const int *sandbox, int nsandbox, int assistants,
                                     const struct coll_message *const *messages, const size_t *counts,
                                     struct prism_error *err)
{
    struct layout layout;
    if (check(size, nsandbox, messages, counts, err) ||
        layout_init(&layout, "group of sends and receives", size, sandbox, nsandbox, assistants, err))
        return NULL;
    layout.plan->target_bytes = true;
    for (int i = 0; i < nsandbox; i++)
        for (size_t part = 0; part < counts[i]; part++)
            plan_part(&layout, i, messages[i], counts[i], part);
    layout_clear(&layout);
    return layout.plan;
}
