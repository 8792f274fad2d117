#include "prismd/assistants/arming.h"

#include <stdlib.h>
#include <string.h>

#include "coll/types.h"

struct member {
    struct arming_group *head; /* by ordinal */
    uint32_t next;             /* ordinal to be armed next */
};

struct arming {
    uint32_t n;
    struct member *members; /* owned */
};

struct arming *arming_create(uint32_t members)
{
    struct arming *a = calloc(1, sizeof *a);
    if (!a || !(a->members = calloc(members, sizeof *a->members)))
        abort();
    a->n = members;
    return a;
}

void arming_group_free(struct arming_group *g)
{
    if (!g)
        return;
    free(g->parts);
    free(g);
}

void arming_destroy(struct arming *a)
{
    if (!a)
        return;
    for (uint32_t i = 0; i < a->n; i++)
        for (struct arming_group *g = a->members[i].head, *next; g; g = next) {
            next = g->next;
            arming_group_free(g);
        }
    free(a->members);
    free(a);
}

void arming_push(struct arming *a, uint32_t member, uint32_t ordinal, const struct graph_part *parts,
                 uint32_t nparts)
{
    struct arming_group *g = calloc(1, sizeof *g);
    if (!g || !(g->parts = malloc(nparts * sizeof *parts + 1)))
        abort();
    memcpy(g->parts, parts, nparts * sizeof *parts);
    g->ordinal = ordinal;
    g->nparts = nparts;
    struct arming_group **at = &a->members[member].head;
    while (*at && (*at)->ordinal < ordinal)
        at = &(*at)->next;
    g->next = *at;
    *at = g;
}

bool arming_wants(const struct arming *a, uint32_t member)
{
    const struct member *m = &a->members[member];
    return !m->head || m->head->ordinal != m->next;
}

static bool is_collective(const struct arming_group *g)
{
    for (uint32_t i = 0; i < g->nparts; i++)
        if (!coll_op_is_p2p(g->parts[i].op))
            return true;
    return false;
}

bool arming_group_is_rooted(const struct arming_group *g)
{
    for (uint32_t i = 0; i < g->nparts; i++)
        if (coll_op_is_rooted(g->parts[i].op))
            return true;
    return false;
}

static struct arming_group *take(struct member *m)
{
    struct arming_group *g = m->head;
    m->head = g->next;
    m->next++;
    return g;
}

bool arming_pop(struct arming *a, struct arming_group **groups)
{
    bool everybody = a->n > 0;
    memset(groups, 0, a->n * sizeof *groups);
    for (uint32_t i = 0; i < a->n; i++) {
        if (arming_wants(a, i)) {
            everybody = false;
        } else if (!is_collective(a->members[i].head)) {
            groups[i] = take(&a->members[i]);
            return true;
        }
    }
    for (uint32_t i = 0; everybody && i < a->n; i++)
        groups[i] = take(&a->members[i]);
    return everybody;
}
