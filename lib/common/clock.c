#include "common/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

int64_t clock_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void clock_sleep_until_ns(int64_t deadline_ns)
{
    struct timespec ts = {.tv_sec = deadline_ns / NSEC_PER_SEC, .tv_nsec = deadline_ns % NSEC_PER_SEC};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

void clock_set_precise(void)
{
    prctl(PR_SET_TIMERSLACK, 1UL);
}
