/* plan_times.h - how long the phases of an emulation will take. A stated model, not a measurement: start-up of a process,
 * iterations of the full job, and how many processes share a device.
 *
 *   capture     start-up x rounds of ranks that start together + iterations x seconds x ranks a device: every rank computes, so
 *               this grows with the world; folded (--prism-fold), with the ranks that run
 *   calibrate   slices x (start-up + iterations x seconds); slices = ranks to calibrate / devices, rounded up. All ranks up to a
 *               world of 64; above, one a class of equal ranks and the sandbox's. Without a trace a class is a pipeline stage.
 *               Where --prism-iterations ends it, seven iterations more (replay/measured.h)
 *   emulate     start-up + iterations x seconds, whatever the world is
 */
#ifndef PRISM_CLI_PLAN_TIMES_H
#define PRISM_CLI_PLAN_TIMES_H

#include <stdint.h>

#define PLAN_MORE_ITERATIONS 7 /* where --prism-iterations is given */

struct plan_model {
    uint32_t captured;                      /* ranks that run in capture */
    uint32_t world, sandbox_ranks, devices; /* in all */
    uint32_t nodes, runnable;               /* real nodes; ranks that start together on each */
    uint32_t classes;
    uint32_t slices;                        /* 0 = from classes */
    uint32_t iterations;
    uint32_t more_iterations; /* of calibration */
    double iteration_seconds, startup_seconds;
};

struct plan_times {
    uint32_t slices;
    double capture, calibrate, emulate; /* seconds */
};

struct plan_times plan_times(const struct plan_model *m);

#endif
