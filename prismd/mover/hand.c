#include "prismd/mover/hand.h"

#include <stdlib.h>

#include "prismd/mover/copy.h"
#include "prismd/mover/guest.h"

struct kept {
    struct memory memory;
    uint64_t bytes;
    struct kept *next;
};

static struct kept *all;

/* Ranges of that size that ranks on their way in have not asked for yet. */
static uint64_t lacking(uint64_t bytes)
{
    uint64_t n = 0;
    for (const struct guest *g = guests; g; g = g->hh.next)
        for (const struct range *r = g->coming ? g->ranges : NULL; r; r = r->hh.next)
            n += r->plain && !r->leaving && r->bytes == bytes;
    return n;
}

static uint64_t kept(uint64_t bytes)
{
    uint64_t n = 0;
    for (const struct kept *k = all; k; k = k->next)
        n += k->bytes == bytes;
    return n;
}

bool hand_keep(struct memory m, uint64_t bytes)
{
    if (lacking(bytes) <= kept(bytes))
        return false;
    struct kept *k = malloc(sizeof *k);
    if (!k)
        abort();
    *k = (struct kept){m, bytes, all};
    all = k;
    return true;
}

static struct memory drop(struct kept **at)
{
    struct kept *k = *at;
    struct memory m = k->memory;
    *at = k->next;
    free(k);
    return m;
}

bool hand_take(uint64_t bytes, struct memory *m)
{
    for (struct kept **at = &all; *at; at = &(*at)->next)
        if ((*at)->bytes == bytes) {
            *m = drop(at);
            return true;
        }
    return false;
}

void hand_trim(void)
{
    for (struct kept **at = &all; *at;) {
        if (kept((*at)->bytes) > lacking((*at)->bytes))
            copy_release(drop(at));
        else
            at = &(*at)->next;
    }
}

bool hand_clear(void)
{
    bool any = all;
    while (all)
        copy_release(drop(&all));
    return any;
}
