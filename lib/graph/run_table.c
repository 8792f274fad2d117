#include "graph/run_private.h"

#include <stdlib.h>

static uint32_t hash_of(uint64_t sequence, uint32_t comm, int32_t source, int32_t destination)
{
    uint64_t h = ((uint64_t)comm << 32 | (uint32_t)source) * 0x9e3779b97f4a7c15u;
    h ^= (sequence << 20 | (uint32_t)destination) * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return (uint32_t)(h >> 32) | 1u;
}

static uint32_t probe(const struct run_table *t, uint32_t hash, uint64_t sequence, uint32_t comm,
                      int32_t source, int32_t destination)
{
    uint32_t i = hash >> 1 & t->mask;
    for (;; i = (i + 1) & t->mask) {
        const struct run_open *o = &t->places[i];
        if (!o->hash || (o->hash == hash && o->sequence == sequence && o->comm == comm &&
                         o->source == source && o->destination == destination))
            return i;
    }
}

static void table_grow(struct run_table *t)
{
    struct run_table old = *t;
    t->mask = old.places ? old.mask * 2 + 1 : 1023;
    t->places = calloc((size_t)t->mask + 1, sizeof *t->places);
    if (!t->places)
        abort();
    for (uint32_t i = 0; old.places && i <= old.mask; i++) {
        const struct run_open *o = &old.places[i];
        if (o->hash)
            t->places[probe(t, o->hash, o->sequence, o->comm, o->source, o->destination)] = *o;
    }
    free(old.places);
}

struct run_open *run_table_get(struct run_table *t, uint64_t sequence, uint32_t comm, int32_t source,
                               int32_t destination)
{
    if (!t->places || t->used >= t->mask / 2)
        table_grow(t);
    uint32_t hash = hash_of(sequence, comm, source, destination);
    struct run_open *o = &t->places[probe(t, hash, sequence, comm, source, destination)];
    if (!o->hash) {
        *o = (struct run_open){.sequence = sequence,
                               .comm = comm,
                               .source = source,
                               .destination = destination,
                               .hash = hash,
                               .start_ns = INT64_MIN,
                               .waiters = NONE};
        t->used++;
    }
    return o;
}

const struct run_open *run_table_find(const struct run_table *t, uint64_t sequence, uint32_t comm,
                                      int32_t source, int32_t destination)
{
    if (!t->places)
        return NULL;
    uint32_t hash = hash_of(sequence, comm, source, destination);
    const struct run_open *o = &t->places[probe(t, hash, sequence, comm, source, destination)];
    return o->hash ? o : NULL;
}

void run_table_remove(struct run_table *t, struct run_open *open)
{
    uint32_t hole = (uint32_t)(open - t->places);
    t->used--;
    for (uint32_t i = (hole + 1) & t->mask; t->places[i].hash; i = (i + 1) & t->mask) {
        uint32_t home = t->places[i].hash >> 1 & t->mask;
        /* An entry may move back to the hole unless its home lies cyclically in (hole, i]. */
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->places[hole] = t->places[i];
            hole = i;
        }
    }
    t->places[hole].hash = 0;
}
