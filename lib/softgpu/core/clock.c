/* clock.c - the real clock, the model clock of host threads, and how late we are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/core/internal.h"

/* model time of this thread = real time + lag; a thread that woke late lags behind (negative). */
static _Thread_local int64_t lag_ns;

static struct {
    pthread_mutex_t lock;
    int64_t late_sum, late_max, overrun_sum;
    unsigned long long items, overruns;
    pid_t pid;
} stats = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t sg_real_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t sg_host_now(void)
{
    return sg_real_now() + lag_ns;
}

void sg_host_waited(int64_t entered_ns, int64_t end_ns)
{
    lag_ns = SG_MAX(entered_ns, end_ns) - sg_real_now();
}

void sg_host_waited_until(int64_t model_ns)
{
    lag_ns = model_ns - sg_real_now();
}

void sg_sleep_until(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    if (sg_real_now() >= ns)
        return;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
    int64_t late = sg_real_now() - ns;
    pthread_mutex_lock(&stats.lock);
    stats.late_sum += late;
    stats.late_max = SG_MAX(stats.late_max, late);
    pthread_mutex_unlock(&stats.lock);
}

void sg_count_item(int64_t real_ns, int64_t model_ns)
{
    pthread_mutex_lock(&stats.lock);
    if (!stats.pid)
        stats.pid = getpid(); /* a forked child has no items of its own: CUDA is not for it */
    stats.items++;
    if (real_ns > model_ns) {
        stats.overruns++;
        stats.overrun_sum += real_ns - model_ns;
    }
    pthread_mutex_unlock(&stats.lock);
}

/* $SOFTGPU_STATS.<pid>: how far reality stayed behind the model (docs/softgpu-profile.md). */
__attribute__((destructor)) static void write_stats(void)
{
    const char *prefix = getenv("SOFTGPU_STATS");
    char path[4096];
    if (!prefix || !*prefix || stats.pid != getpid())
        return;
    snprintf(path, sizeof(path), "%s.%ld", prefix, (long)getpid());
    FILE *f = fopen(path, "we");
    if (!f) {
        fprintf(stderr, "softgpu: SOFTGPU_STATS: %s: %m\n", path);
        return;
    }
    fprintf(f, "{\"late_sum_s\": %.9f, \"late_max_s\": %.9f, \"overrun_sum_s\": %.9f, \"overruns\": %llu, \"items\": %llu}\n",
            (double)stats.late_sum * 1e-9, (double)stats.late_max * 1e-9, (double)stats.overrun_sum * 1e-9, stats.overruns,
            stats.items);
    fclose(f);
}
