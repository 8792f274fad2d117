/* terms.h - times that hang on moments which are not known yet. Inside lib/graph only.
 *
 * Adding works and taking maxima is all that the graph's arithmetic does, so every time in it is
 *
 *     max over some moments m of ( when m is + weight(m) )
 *
 * where moments are arrivals of ranks that are not played. A time is held in the int64_t that it would be as a number: the upper
 * bits are the number of a vector of weights, the lower ones nanoseconds that come on top. So adding a work is adding, and a
 * maximum of two times on one vector is the larger one; terms_later makes the maximum of others. Equal vectors are one.
 *
 * Moments are numbered as they are made. A moment may stand for a time (terms_moment_for): it is known to be no earlier than the
 * moments in that time's terms, and terms that it makes needless are left out. What is left is the same whatever the order in
 * which maxima were taken. This is what keeps vectors short where everyone meets.
 *
 * Exact: weights are whole nanoseconds, and no term is left out that could ever be the largest.
 */
#ifndef PRISM_GRAPH_TERMS_H
#define PRISM_GRAPH_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERMS_OFFSET_BITS 45
#define TERMS_ADD_MOST    (INT64_C(1) << 42) /* what may be added to a time before its next maximum, 73 minutes */

struct terms;

/* What a moment is: the position'th of a source, which is the place'th of a loop. For the caller, and for terms_print. */
struct terms_label {
    uint32_t source, place;
    int32_t loop;
    uint64_t position;
};

struct term {
    uint32_t moment;
    int64_t weight_ns;
};

/* bytes: of vectors, at most; steps: weights that are looked at, at most (some 1e9 to 3e9 a second). */
struct terms *terms_create(size_t bytes, uint64_t steps);
void terms_destroy(struct terms *t); /* NULL is fine */
/* A limit was passed, or a time left the range: all times are void, and terms_later gives anything. NULL: no. */
const char *terms_refused(const struct terms *t);

/* A new moment, as a time. */
int64_t terms_moment(struct terms *t, const struct terms_label *label);
/* The same, which is at `time`. */
int64_t terms_moment_for(struct terms *t, const struct terms_label *label, int64_t time);
uint32_t terms_moments(const struct terms *t); /* how many there are */
const struct terms_label *terms_label(const struct terms *t, uint32_t moment);

/* The later of two. INT64_MIN is before everything. */
int64_t terms_later(struct terms *t, int64_t a, int64_t b);
/* What a time, not INT64_MIN, is made of; *list grows to hold it. Returns how many. */
uint32_t terms_of(const struct terms *t, int64_t time, struct term **list, size_t *cap);
/* The same for times at two loops if they are made of moments of equal source and place and as many loops before, plus the same. */
uint64_t terms_print(struct terms *t, int64_t time, int32_t loop);
uint32_t terms_first_moment(const struct terms *t, int64_t time); /* the one that was made first */

/* Giving vectors back: when there are many, mark all times that are in use (INT64_MIN too), and sweep. */
bool terms_are_many(const struct terms *t);
void terms_mark(struct terms *t, int64_t time);
void terms_sweep(struct terms *t);

#endif
