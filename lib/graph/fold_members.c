/* fold_members.c - which ranks a communicator has, from those of its members that run. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "graph/fold.h"

static uint32_t product(const struct fold *f, unsigned mask)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < f->ndimensions; i++)
        n *= mask >> i & 1 ? f->dimensions[i].size : 1;
    return n;
}

static unsigned folded(const struct fold *f)
{
    unsigned mask = 0;
    for (uint32_t i = 0; i < f->ndimensions; i++)
        mask |= (unsigned)f->dimensions[i].folded << i;
    return mask;
}

/* The i-th displacement within the dimensions of the mask. */
static uint32_t ith_displacement(const struct fold *f, unsigned mask, uint32_t i)
{
    uint32_t displacement = 0;
    for (uint32_t k = 0; k < f->ndimensions; k++)
        if (mask >> k & 1) {
            displacement += i % f->dimensions[k].size * f->dimensions[k].stride;
            i /= f->dimensions[k].size;
        }
    return displacement;
}

uint32_t fold_spread(const struct fold *f, const int32_t *ranks, uint32_t n, unsigned mask, int32_t *members, uint32_t size)
{
    uint8_t *in = check(calloc(f->world, 1));
    uint32_t each = product(f, mask), found = 0;
    bool fits = true;
    for (uint32_t i = 0; i < n && fits; i++)
        for (uint32_t k = 0; ranks[i] >= 0 && k < each && fits; k++) {
            uint8_t *at = &in[fold_shift(f, (uint32_t)ranks[i], ith_displacement(f, mask, k))];
            found += !*at;
            *at = 1;
            fits = found <= size;
        }
    for (uint32_t r = 0, at = 0; r < f->world && fits; r++)
        if (in[r])
            members[at++] = (int32_t)r;
    free(in);
    return fits ? found : 0;
}

int fold_covers(const struct fold *f, const int32_t *ranks, uint32_t size)
{
    uint8_t *in = check(calloc(f->world, 1));
    unsigned mask = 0;
    int answer = 0;
    for (uint32_t i = 0; i < size; i++)
        in[ranks[i]] = 1;
    for (uint32_t k = 0; k < f->ndimensions; k++) {
        const struct fold_dimension *d = &f->dimensions[k];
        if (!d->folded || d->size == 1)
            continue;
        uint32_t inside = 0;
        for (uint32_t i = 0; i < size; i++)
            inside += in[fold_shift(f, (uint32_t)ranks[i], d->stride)];
        if (inside == size)
            mask |= 1u << k;
        else if (inside)
            answer = -1;
    }
    free(in);
    return answer ? answer : (int)mask;
}

static uint32_t stand_in(const struct fold *f, const uint32_t *place, uint32_t rank, unsigned mask)
{
    uint32_t other = f->representative[rank];
    for (uint32_t i = 0; !place[other] && i < product(f, mask); i++) {
        uint32_t r = fold_shift(f, rank, ith_displacement(f, mask, i));
        if (fold_is_live(f, r))
            other = r;
    }
    return place[other] ? place[other] - 1 : 0;
}

void fold_stand_ins(const struct fold *f, const struct graph_comm *c, uint32_t *places)
{
    uint32_t *place = check(calloc(f->world, sizeof *place)); /* by rank, from 1 */
    int mask = fold_covers(f, c->ranks, c->size);
    for (uint32_t i = 0; i < c->size; i++)
        place[c->ranks[i]] = i + 1;
    for (uint32_t i = 0; i < c->size; i++)
        places[i] = stand_in(f, place, (uint32_t)c->ranks[i], mask < 0 ? 0 : (unsigned)mask);
    free(place);
}

/* Its number among the ranks that differ from it in the mask's dimensions only. */
static uint32_t place_in(const struct fold *f, uint32_t rank, unsigned mask)
{
    uint32_t place = 0, each = 1;
    for (uint32_t k = 0; k < f->ndimensions; k++)
        if (mask >> k & 1) {
            place += rank / f->dimensions[k].stride % f->dimensions[k].size * each;
            each *= f->dimensions[k].size;
        }
    return place;
}

static bool differ_only_in(const struct fold *f, uint32_t a, uint32_t b, unsigned mask)
{
    for (uint32_t k = 0; k < f->ndimensions; k++) {
        const struct fold_dimension *d = &f->dimensions[k];
        if (!(mask >> k & 1) && a / d->stride % d->size != b / d->stride % d->size)
            return false;
    }
    return true;
}

/* Would a communicator over these dimensions of the layout have the callers where they are? */
static bool explains(const struct fold *f, const int32_t *callers, uint32_t size, unsigned mask)
{
    int32_t first = -1;
    if (product(f, mask) != size)
        return false;
    for (uint32_t i = 0; i < size; i++) {
        if (callers[i] < 0)
            continue;
        first = first < 0 ? callers[i] : first;
        if (place_in(f, (uint32_t)callers[i], mask) != i || !differ_only_in(f, (uint32_t)first, (uint32_t)callers[i], mask))
            return false;
    }
    return true;
}

/* May others come, so that it is one over these folded dimensions? */
static bool may_grow(const struct fold *f, const int32_t *callers, uint32_t size, unsigned over)
{
    unsigned all = (1u << f->ndimensions) - 1;
    if (size == 2 && !over)
        return true; /* neighbours of a pipeline, first and last */
    for (unsigned mask = 0; mask <= all; mask++)
        if ((mask & folded(f)) == over && explains(f, callers, size, mask))
            return true;
    return false;
}

/* Do the callers stand where they would in members, and have all that run called? */
static bool fits(const struct fold *f, const int32_t *callers, const int32_t *members, uint32_t size, bool *missing)
{
    *missing = false;
    for (uint32_t i = 0; i < size; i++) {
        if (callers[i] >= 0 && callers[i] != members[i])
            return false;
        *missing |= callers[i] < 0 && fold_is_live(f, (uint32_t)members[i]);
    }
    return true;
}

enum fold_answer fold_members(const struct fold *f, const int32_t *callers, uint32_t size, bool last, int32_t *members)
{
    uint32_t called = 0, whole = 0, possible = 0;
    unsigned all = folded(f);
    for (uint32_t i = 0; i < size; i++)
        called += callers[i] >= 0;
    if (called == size) {
        memcpy(members, callers, size * sizeof *members);
        return FOLD_WHOLE;
    }
    int32_t *found = check(malloc(size * sizeof *found));
    for (unsigned over = all;; over = (over - 1) & all) {
        bool missing;
        if (size % product(f, over) == 0) {
            uint32_t n = fold_spread(f, callers, size, over, found, size);
            if (n == size && fits(f, callers, found, size, &missing) && !missing) {
                whole++;
                memcpy(members, found, size * sizeof *members);
            } else if (n && !last && may_grow(f, callers, size, over)) {
                possible++;
            }
        }
        if (!over)
            break;
    }
    free(found);
    if (last)
        return whole == 1 ? FOLD_WHOLE : whole ? FOLD_SEVERAL : FOLD_NONE;
    return whole == 1 && !possible ? FOLD_WHOLE : FOLD_LATER;
}
