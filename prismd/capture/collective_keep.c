#include <stdlib.h>

#include "coll/share.h"
#include "coll/types.h"
#include "prismd/capture/capture.h"
#include "prismd/capture/collective_private.h"

struct payload_writer *collective_payloads;

/* sum: a room. */
static int keep_sum(struct daemon *d, const struct collective *c, uint32_t leader, void *sum, size_t bytes)
{
    const struct entry *e = &c->entries[leader];
    struct payload_key key = {(uint32_t)world_rank(d, c, leader), e->comm, e->ordinal, PAYLOAD_CONTRIBUTION + e->part};
    struct prism_error err = {0};
    return payload_writer_put_room(collective_payloads, &key, 1, sum, bytes, &err) ? daemon_fail(d, err.code, "%s", err.text) : 0;
}

static int no_sum(struct daemon *d, void *sum, const struct prism_error *err)
{
    payload_writer_put_room(collective_payloads, NULL, 0, sum, 0, NULL);
    return daemon_fail(d, err->code, "%s", err->text);
}

static bool is_sandbox(const struct daemon *d, const struct collective *c, uint32_t member)
{
    return conf_is_sandbox(d->conf, (uint32_t)world_rank(d, c, member));
}

int collective_keep_contribution(struct daemon *d, const struct collective *c, const void *const *inputs,
                                 const struct coll_premul *scalars)
{
    const struct msg_part *w = &c->entries[c->first].what;
    uint64_t count = coll_input_count(w->op, w->count, 0, w->peer, (int)c->size);
    size_t bytes = count * coll_datatype_size(w->datatype);
    if (!coll_op_is_reduction(w->op) || !capture_kept(d, w->datatype, bytes))
        return 0;
    int leader = -1, nvirtual = 0;
    const void **some = malloc(c->size * sizeof *some);
    struct coll_premul *factors = malloc(c->size * sizeof *factors);
    if (!some || !factors)
        abort();
    for (uint32_t i = 0; i < c->size; i++)
        if (is_sandbox(d, c, i)) {
            leader = leader < 0 ? (int)i : leader;
        } else {
            factors[nvirtual] = scalars[i];
            some[nvirtual++] = inputs[i];
        }
    int rc = 0;
    if (leader >= 0 && nvirtual) {
        void *sum = payload_writer_room(collective_payloads, bytes);
        /* An average is of the whole group: the sum is kept, the division is the shrunk operation's. */
        int redop = w->redop == COLL_REDOP_AVG ? COLL_REDOP_SUM : w->redop;
        struct prism_error err = {0};
        if (nvirtual == 1 && redop != COLL_REDOP_PREMUL)
            coll_copy(sum, some[0], bytes);
        else
            rc = coll_reduce(sum, some, nvirtual, count, w->datatype, redop, factors, &err);
        rc = rc ? no_sum(d, sum, &err) : keep_sum(d, c, (uint32_t)leader, sum, bytes);
    }
    free(some);
    free(factors);
    return rc;
}

int collective_keep_summed_contribution(struct daemon *d, const struct collective *c)
{
    uint32_t leader = 0;
    size_t bytes = c->entries[c->first].what.out_bytes;
    while (leader < c->size && !is_sandbox(d, c, leader))
        leader++;
    if (leader == c->size || !capture_kept(d, c->entries[c->first].what.datatype, bytes))
        return 0;
    void *sum = payload_writer_room(collective_payloads, bytes);
    if (collective_reduce(d, c, COLLECTIVE_OF_VIRTUAL, sum))
        return keep_sum(d, c, leader, sum, bytes);
    payload_writer_put_room(collective_payloads, NULL, 0, sum, 0, NULL);
    return 0;
}

struct payload_key *collective_hand_out(const struct daemon *d, const struct collective *c, const void *shared, uint32_t *nkeys)
{
    void **to = malloc(c->size * sizeof *to);
    struct payload_key *keys = malloc(c->size * sizeof *keys);
    uint64_t bytes = c->entries[c->first].what.out_bytes;
    uint32_t n = 0;
    if (!to || !keys)
        abort();
    for (uint32_t i = 0; i < c->size; i++) {
        struct group *g = c->entries[i].arrived ? c->entries[i].group : NULL;
        if (!g || c->entries[i].what.out_bytes != bytes)
            continue;
        void *output = g->rank->region + c->entries[i].what.out_offset;
        if (output != shared)
            to[n++] = output;
        g->kept = g->nparts == 1 && capture_kept(d, g->parts[0].datatype, bytes);
        if (g->kept)
            keys[(*nkeys)++] = (struct payload_key){g->rank->number, g->comm, g->ordinal, PAYLOAD_OUTPUT};
    }
    if (n)
        coll_copy_to(to, n, shared, bytes);
    free(to);
    return keys;
}
