#include "plan_times.h"

#define SMALL_WORLD 64 /* prismd/replay/slices.h: all of it is calibrated */

static uint32_t divide_up(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

struct plan_times plan_times(const struct plan_model *m)
{
    uint64_t some = (uint64_t)m->classes + m->sandbox_ranks;
    uint64_t calibrated = m->captured <= SMALL_WORLD || some > m->captured ? m->captured : some;
    double work = m->iterations * m->iteration_seconds;
    struct plan_times t = { .slices = m->slices ? m->slices : divide_up(calibrated, m->devices) };
    t.capture = m->startup_seconds * divide_up(m->captured, (uint64_t)m->nodes * m->runnable) +
                work * divide_up(m->captured, m->devices);
    t.calibrate = t.slices * (m->startup_seconds + work + m->more_iterations * m->iteration_seconds);
    t.emulate = m->startup_seconds + work;
    return t;
}
