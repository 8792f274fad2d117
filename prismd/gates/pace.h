/* pace.h - how late gates are seen and opened, learnt from device times, so that ends come out right.
 *
 * seen  = moment prismd saw arrive    pre  = device time of the arrival      lag_in  = mean(seen - pre)
 * go    = moment prismd wrote go      post = device time of the end          lag_out = mean(post - go)
 * An operation's start is taken as seen - lag_in, and go is written at end - lag_out. Both are measured on the run itself,
 * per rank, from the timing events around each gate: nothing is assumed about the machine. Means are over the last PACE_WINDOW samples with
 * the outer tenths cut off, so that one hiccup of the scheduler does not move them; lag_in is that of the place (pace_recent), where it is
 * known.
 */
#ifndef PRISM_PRISMD_PACE_H
#define PRISM_PRISMD_PACE_H

#include <stdint.h>

#define PACE_WINDOW 64

struct pace_lag {
    int64_t samples[PACE_WINDOW];
    uint32_t n; /* counted, may exceed the window */
};

void pace_lag_add(struct pace_lag *lag, int64_t ns);
/* 0 until there are four samples. */
int64_t pace_lag_ns(const struct pace_lag *lag);
/* Of samples of which many are too large: the mean of the lowest quarter without the outermost. Transport nccl: a gate behind a
 * real operation that ends late says nothing about gates. */
int64_t pace_lag_low_ns(const struct pace_lag *lag);

/* How late the arrivals at one place of an iteration are seen, which depends on what prismd has to do there: an H200's were seen 12 us
 * before to 170 us after they came, at each place much the same every time. */
#define PACE_RECENT 8

struct pace_recent {
    int64_t samples[PACE_RECENT];
    uint32_t n; /* counted, may exceed the window */
};

void pace_recent_add(struct pace_recent *recent, int64_t ns);
/* The median of the window; `otherwise` until there are three samples. */
int64_t pace_recent_ns(const struct pace_recent *recent, int64_t otherwise);

#endif
