/* clock.h - nanoseconds of CLOCK_MONOTONIC as int64_t, the time base of every module. */
#ifndef PRISM_COMMON_CLOCK_H
#define PRISM_COMMON_CLOCK_H

#include <stdint.h>

#define NSEC_PER_SEC 1000000000LL

int64_t clock_now_ns(void);
/* Sleep until the absolute time; returns early only if a signal handler asked (EINTR is retried). */
void clock_sleep_until_ns(int64_t deadline_ns);
/* Timer slack of the calling thread down to 1 ns, so that sleeps end when asked for. */
void clock_set_precise(void);

#endif
