#include "graph/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

static uint32_t coordinate(const struct fold *f, uint32_t rank, uint32_t dimension)
{
    return rank / f->dimensions[dimension].stride % f->dimensions[dimension].size;
}

/* rank with its coordinates in the folded dimensions of the mask set to 0. */
static uint32_t without(const struct fold *f, uint32_t rank, unsigned mask)
{
    for (uint32_t i = 0; i < f->ndimensions; i++)
        if (f->dimensions[i].folded && mask >> i & 1)
            rank -= coordinate(f, rank, i) * f->dimensions[i].stride;
    return rank;
}

static unsigned folded_mask(const struct fold *f)
{
    unsigned mask = 0;
    for (uint32_t i = 0; i < f->ndimensions; i++)
        mask |= (unsigned)f->dimensions[i].folded << i;
    return mask;
}

/* Folded coordinates of live replicas, each written as its rank with all other coordinates 0. */
static uint8_t *live_replicas(const struct fold *f, const uint32_t *sandbox, uint32_t n)
{
    uint8_t *replicas = check(calloc(f->world, 1));
    unsigned all = folded_mask(f);
    replicas[0] = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t own = fold_displacement(f, without(f, sandbox[i], all), sandbox[i]);
        for (unsigned zeroed = all;; zeroed = (zeroed - 1) & all) {
            replicas[without(f, own, zeroed)] = 1;
            if (!zeroed)
                break;
        }
    }
    return replicas;
}

/* How alike two replicas are: in a dimension the same place, or neither the first. */
static uint32_t alike(const struct fold *f, uint32_t a, uint32_t b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->ndimensions; i++) {
        uint32_t x = coordinate(f, a, i), y = coordinate(f, b, i);
        if (f->dimensions[i].folded)
            n += x == y ? 2 : x && y ? 1 : 0;
    }
    return n;
}

/* Of equals, the absent ones take them in turn. */
static uint32_t most_alike(const struct fold *f, const uint32_t *list, uint32_t n, uint32_t own, uint32_t turn)
{
    uint32_t best = 0, equals = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t score = alike(f, list[i], own);
        equals = score > best ? 1 : equals + (score == best);
        best = score > best ? score : best;
    }
    turn %= equals;
    for (uint32_t i = 0; i < n; i++)
        if (alike(f, list[i], own) == best && !turn--)
            return list[i];
    return list[0];
}

/* The number of a replica: its folded coordinates alone. */
static uint32_t number_of(const struct fold *f, uint32_t own)
{
    uint32_t number = 0, each = 1;
    for (uint32_t i = 0; i < f->ndimensions; i++)
        if (f->dimensions[i].folded) {
            number += coordinate(f, own, i) * each;
            each *= f->dimensions[i].size;
        }
    return number;
}

static void find_representatives(struct fold *f, const uint8_t *replicas)
{
    unsigned all = folded_mask(f);
    uint32_t *list = check(malloc(f->world * sizeof *list)), n = 0;
    for (uint32_t r = 0; r < f->world; r++)
        if (replicas[r])
            list[n++] = r;
    for (uint32_t r = 0; r < f->world; r++) {
        uint32_t base = without(f, r, all), own = r - base;
        f->representative[r] = replicas[own] ? r : base + most_alike(f, list, n, own, number_of(f, own));
        if (replicas[own]) {
            f->index[r] = f->nlive;
            f->live[f->nlive++] = r;
        }
    }
    for (uint32_t r = 0; r < f->world; r++)
        f->index[r] = f->index[f->representative[r]];
    free(list);
}

struct fold *fold_create(const struct fold_dimension *dimensions, uint32_t ndimensions, const uint32_t *sandbox, uint32_t n)
{
    struct fold *f = check(calloc(1, sizeof *f));
    f->ndimensions = ndimensions;
    f->world = 1;
    for (uint32_t i = 0; i < ndimensions; i++) {
        f->dimensions[i] = dimensions[i];
        f->dimensions[i].stride = f->world;
        f->world *= dimensions[i].size;
    }
    f->live = check(malloc(f->world * sizeof *f->live));
    f->representative = check(malloc(f->world * sizeof *f->representative));
    f->index = check(calloc(f->world, sizeof *f->index));
    uint8_t *replicas = live_replicas(f, sandbox, n);
    find_representatives(f, replicas);
    free(replicas);
    return f;
}

void fold_destroy(struct fold *f)
{
    if (!f)
        return;
    free(f->live);
    free(f->representative);
    free(f->index);
    free(f);
}

bool fold_is_live(const struct fold *f, uint32_t rank)
{
    return f->representative[rank] == rank;
}

uint32_t fold_shift(const struct fold *f, uint32_t rank, uint32_t displacement)
{
    uint32_t to = rank;
    for (uint32_t i = 0; i < f->ndimensions && displacement; i++) {
        const struct fold_dimension *d = &f->dimensions[i];
        uint32_t by = d->folded ? coordinate(f, displacement, i) : 0, at = coordinate(f, rank, i);
        to = to - at * d->stride + (at + by) % d->size * d->stride;
    }
    return to;
}

uint32_t fold_displacement(const struct fold *f, uint32_t from, uint32_t to)
{
    uint32_t displacement = 0;
    for (uint32_t i = 0; i < f->ndimensions; i++) {
        const struct fold_dimension *d = &f->dimensions[i];
        if (d->folded)
            displacement += (coordinate(f, to, i) + d->size - coordinate(f, from, i)) % d->size * d->stride;
    }
    return displacement;
}

uint32_t fold_inverse(const struct fold *f, uint32_t displacement)
{
    return fold_displacement(f, displacement, 0);
}

uint32_t fold_outside(const struct fold *f, uint32_t displacement, unsigned mask)
{
    return without(f, displacement, mask);
}

void fold_describe(const struct fold *f, char *text, size_t len)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < f->ndimensions && at < len; i++)
        if (f->dimensions[i].folded)
            at += (size_t)snprintf(text + at, len - at, "%s%s:%u", at ? "," : "", f->dimensions[i].name, f->dimensions[i].size);
}
