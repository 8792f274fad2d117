#include "graph/terms.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NOTHING     (-(INT64_C(1) << 61)) /* weight of a moment that is not among the terms */
#define OFFSET_MASK ((INT64_C(1) << TERMS_OFFSET_BITS) - 1)
#define OFFSET_MOST (INT64_C(1) << 43)
#define VECTORS     (1u << 18)
#define BUCKETS     (1u << 16)
#define MANY        16384u
#define NONE        UINT32_MAX

/* Weights of moments first to first + n - 1; the largest is 0, those at both ends are something. */
struct vector {
    int64_t *weights; /* owned; NULL: free */
    uint64_t hash, print;
    uint32_t first, n;
    uint32_t next; /* in its bucket, or among the free */
    int32_t loop;  /* that print counts from */
    bool marked, printed;
};

struct moment {
    struct terms_label label;
    int64_t *weights; /* owned; by earlier moment, of those that it is known to be no earlier than; NULL: of none */
};

struct terms {
    struct vector *vectors;
    uint32_t nvectors, used, free, many;
    uint32_t *buckets;
    struct moment *moments;
    uint32_t nmoments, moments_cap;
    uint32_t *standing; /* moments that stand for a time, in order */
    uint32_t nstanding, standing_cap;
    int64_t *scratch;
    size_t scratch_cap;
    size_t bytes, bytes_most;
    uint64_t steps, steps_most;
    const char *refused;
};

static void *room(void *list, size_t n, size_t size)
{
    void *p = realloc(list, (n ? n : 1) * size);
    if (!p)
        abort();
    return p;
}

static inline uint32_t vector_of(int64_t time)
{
    return (uint32_t)(time >> TERMS_OFFSET_BITS);
}

static inline int64_t offset_of(int64_t time)
{
    return time & OFFSET_MASK;
}

struct terms *terms_create(size_t bytes, uint64_t steps)
{
    struct terms *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->bytes_most = bytes;
    t->steps_most = steps;
    t->free = NONE;
    t->many = MANY;
    t->buckets = room(NULL, BUCKETS, sizeof *t->buckets);
    memset(t->buckets, 0xff, BUCKETS * sizeof *t->buckets);
    return t;
}

void terms_destroy(struct terms *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; i < t->nvectors; i++)
        free(t->vectors[i].weights);
    for (uint32_t i = 0; i < t->nmoments; i++)
        free(t->moments[i].weights);
    free(t->vectors);
    free(t->buckets);
    free(t->moments);
    free(t->standing);
    free(t->scratch);
    free(t);
}

const char *terms_refused(const struct terms *t)
{
    return t->refused;
}

/* ---- Vectors ---- */

static uint32_t vector_take(struct terms *t)
{
    uint32_t i = t->free;
    if (i != NONE) {
        t->free = t->vectors[i].next;
    } else if (t->nvectors == VECTORS) {
        t->refused = "too many different times";
        return NONE;
    } else {
        if (!(t->nvectors & (t->nvectors - 1)))
            t->vectors = room(t->vectors, 2 * t->nvectors + 1, sizeof *t->vectors);
        i = t->nvectors++;
    }
    t->used++;
    return i;
}

/* The vector with these weights, whose largest is 0. */
static int64_t intern(struct terms *t, const int64_t *weights, uint32_t first, uint32_t n, int64_t offset)
{
    uint64_t hash = XXH3_64bits_withSeed(weights, n * sizeof *weights, first);
    uint32_t *bucket = &t->buckets[hash % BUCKETS], i = *bucket;
    for (; i != NONE; i = t->vectors[i].next) {
        const struct vector *v = &t->vectors[i];
        if (v->hash == hash && v->first == first && v->n == n && !memcmp(v->weights, weights, n * sizeof *weights))
            return (int64_t)i << TERMS_OFFSET_BITS | offset;
    }
    if ((i = vector_take(t)) == NONE)
        return 0;
    t->vectors[i] = (struct vector){.weights = room(NULL, n, sizeof *weights), .hash = hash, .first = first, .n = n, .next = *bucket};
    memcpy(t->vectors[i].weights, weights, n * sizeof *weights);
    *bucket = i;
    t->bytes += n * sizeof *weights;
    if (t->bytes > t->bytes_most)
        t->refused = "the weights take too much memory";
    return (int64_t)i << TERMS_OFFSET_BITS | offset;
}

/* ---- Moments ---- */

static uint32_t moment_add(struct terms *t, const struct terms_label *label)
{
    if (t->nmoments == t->moments_cap) {
        t->moments_cap = t->moments_cap ? 2 * t->moments_cap : 256;
        t->moments = room(t->moments, t->moments_cap, sizeof *t->moments);
    }
    t->moments[t->nmoments] = (struct moment){.label = *label};
    return t->nmoments++;
}

int64_t terms_moment(struct terms *t, const struct terms_label *label)
{
    static const int64_t zero;
    return intern(t, &zero, moment_add(t, label), 1, 0);
}

/* What the moment is no earlier than: the time's moments, and what those are no earlier than. */
static int64_t *bounds(struct terms *t, uint32_t moment, int64_t time)
{
    const struct vector *v = &t->vectors[vector_of(time)];
    int64_t *w = room(NULL, moment, sizeof *w), offset = offset_of(time);
    for (uint32_t i = 0; i < moment; i++)
        w[i] = i >= v->first && i < v->first + v->n && v->weights[i - v->first] != NOTHING ? v->weights[i - v->first] + offset : NOTHING;
    for (uint32_t s = 0; s < t->nstanding; s++) {
        uint32_t m = t->standing[s];
        if (m < v->first || m >= v->first + v->n || v->weights[m - v->first] == NOTHING)
            continue;
        const int64_t *before = t->moments[m].weights;
        int64_t more = v->weights[m - v->first] + offset;
        for (uint32_t i = 0; i < m; i++)
            if (before[i] != NOTHING && before[i] + more > w[i])
                w[i] = before[i] + more;
    }
    t->bytes += moment * sizeof *w;
    return w;
}

int64_t terms_moment_for(struct terms *t, const struct terms_label *label, int64_t time)
{
    if (t->refused)
        return time;
    int64_t as_time = terms_moment(t, label);
    uint32_t m = t->nmoments - 1;
    t->moments[m].weights = bounds(t, m, time);
    if (t->nstanding == t->standing_cap) {
        t->standing_cap = t->standing_cap ? 2 * t->standing_cap : 64;
        t->standing = room(t->standing, t->standing_cap, sizeof *t->standing);
    }
    t->standing[t->nstanding++] = m;
    return as_time;
}

uint32_t terms_moments(const struct terms *t)
{
    return t->nmoments;
}

const struct terms_label *terms_label(const struct terms *t, uint32_t moment)
{
    return &t->moments[moment].label;
}

/* ---- The later one ---- */

/* b is never later than a, term by term. */
static bool covers(struct terms *t, const struct vector *a, const struct vector *b, int64_t by)
{
    if (b->first < a->first || b->first + b->n > a->first + a->n)
        return false;
    const int64_t *w = a->weights + (b->first - a->first);
    uint32_t i = 0;
    while (i < b->n && b->weights[i] <= w[i] + by)
        i++;
    t->steps += i;
    return i == b->n;
}

/* b with `more` on top, into the scratch of moments from first on. */
static void merge(int64_t *scratch, uint32_t first, const struct vector *b, int64_t more)
{
    int64_t *w = scratch + (b->first - first);
    for (uint32_t i = 0; i < b->n; i++) {
        int64_t x = b->weights[i] + more;
        w[i] = x > w[i] ? x : w[i];
    }
}

/* Leave out what moments among the terms make needless. */
static void prune(struct terms *t, int64_t *scratch, uint32_t first, uint32_t n)
{
    for (uint32_t s = t->nstanding; s-- > 0;) {
        uint32_t m = t->standing[s];
        if (m <= first)
            break;
        if (m >= first + n || scratch[m - first] <= NOTHING / 2)
            continue;
        const int64_t *bound = t->moments[m].weights + first;
        int64_t more = scratch[m - first];
        for (uint32_t i = 0; i < m - first; i++)
            scratch[i] = scratch[i] <= bound[i] + more ? NOTHING : scratch[i];
        t->steps += m - first;
    }
}

static int64_t normal(struct terms *t, int64_t *scratch, uint32_t first, uint32_t n)
{
    while (scratch[n - 1] <= NOTHING / 2)
        n--;
    for (; scratch[0] <= NOTHING / 2; n--, first++)
        scratch++;
    int64_t most = NOTHING;
    for (uint32_t i = 0; i < n; i++)
        most = scratch[i] > most ? scratch[i] : most;
    for (uint32_t i = 0; i < n; i++)
        scratch[i] = scratch[i] <= NOTHING / 2 ? NOTHING : scratch[i] - most;
    return intern(t, scratch, first, n, most);
}

int64_t terms_later(struct terms *t, int64_t a, int64_t b)
{
    if (a < 0 || b < 0 || t->refused)
        return a < 0 ? b : a;
    if (offset_of(a) > OFFSET_MOST || offset_of(b) > OFFSET_MOST) {
        t->refused = "a time is too long";
        return a;
    }
    if (vector_of(a) == vector_of(b))
        return a > b ? a : b;
    const struct vector *x = &t->vectors[vector_of(a)], *y = &t->vectors[vector_of(b)];
    int64_t p = offset_of(a), q = offset_of(b);
    if (p >= q && covers(t, x, y, p - q))
        return a;
    if (q >= p && covers(t, y, x, q - p))
        return b;
    uint32_t first = x->first < y->first ? x->first : y->first, end = x->first + x->n;
    end = y->first + y->n > end ? y->first + y->n : end;
    if (end - first > t->scratch_cap)
        t->scratch = room(t->scratch, t->scratch_cap = 2 * (size_t)(end - first), sizeof *t->scratch);
    for (uint32_t i = 0; i < end - first; i++)
        t->scratch[i] = NOTHING;
    merge(t->scratch, first, x, p);
    merge(t->scratch, first, y, q);
    prune(t, t->scratch, first, end - first);
    t->steps += 4 * (uint64_t)(end - first) + 8;
    if (t->steps > t->steps_most)
        t->refused = "it takes too long";
    return normal(t, t->scratch, first, end - first);
}

/* ---- Looking at times ---- */

uint32_t terms_of(const struct terms *t, int64_t time, struct term **list, size_t *cap)
{
    const struct vector *v = &t->vectors[vector_of(time)];
    uint32_t n = 0;
    if (*cap < v->n)
        *list = room(*list, *cap = v->n, sizeof **list);
    for (uint32_t i = 0; i < v->n; i++)
        if (v->weights[i] != NOTHING)
            (*list)[n++] = (struct term){v->first + i, v->weights[i] + offset_of(time)};
    return n;
}

static void print(const struct terms *t, struct vector *v)
{
    v->loop = t->moments[v->first + v->n - 1].label.loop;
    v->print = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->weights[i] == NOTHING)
            continue;
        const struct terms_label *l = &t->moments[v->first + i].label;
        int64_t words[] = {l->source, l->place, (int64_t)l->loop - v->loop, v->weights[i]};
        v->print += XXH3_64bits(words, sizeof words);
    }
    v->printed = true;
}

uint64_t terms_print(struct terms *t, int64_t time, int32_t loop)
{
    struct vector *v = &t->vectors[vector_of(time)];
    if (!v->printed)
        print(t, v);
    int64_t words[] = {(int64_t)v->print, (int64_t)loop - v->loop, offset_of(time)};
    return XXH3_64bits(words, sizeof words);
}

uint32_t terms_first_moment(const struct terms *t, int64_t time)
{
    return t->vectors[vector_of(time)].first;
}

/* ---- Giving back ---- */

bool terms_are_many(const struct terms *t)
{
    return t->used >= t->many;
}

void terms_mark(struct terms *t, int64_t time)
{
    if (time >= 0 && vector_of(time) < t->nvectors) /* places of rings may hold anything before they are written */
        t->vectors[vector_of(time)].marked = true;
}

void terms_sweep(struct terms *t)
{
    memset(t->buckets, 0xff, BUCKETS * sizeof *t->buckets);
    for (uint32_t i = 0; i < t->nvectors; i++) {
        struct vector *v = &t->vectors[i];
        if (v->weights && !v->marked && i) { /* 0: what stands in places that nothing was written to */
            t->bytes -= v->n * sizeof *v->weights;
            free(v->weights);
            *v = (struct vector){.next = t->free};
            t->free = i;
            t->used--;
        } else if (v->weights) {
            v->marked = false;
            v->next = t->buckets[v->hash % BUCKETS];
            t->buckets[v->hash % BUCKETS] = i;
        }
    }
    t->many = t->used > MANY / 2 ? 2 * t->used : MANY;
}
