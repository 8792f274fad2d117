/* report.h - report.json: what a run showed (docs/report.md has the names). */
#ifndef PRISM_PRISMD_REPORT_H
#define PRISM_PRISMD_REPORT_H

#include "prismd/daemon.h"
#include "prismd/predict/predict.h"
#include "prismd/report/result.h"
#include "trace/trace.h"

struct report {
    double capture_seconds, calibrate_seconds, emulate_seconds;
    uint32_t slices, calibrated_ranks;
    enum msg_transport transport, calibrated_by;
    uint32_t measured_durations; /* of groups of operations; the others come from the network profile */
};

/* Mean over the iterations after the first, which carries start-up. */
double report_steady_mean(const double *seconds, uint32_t n);
/* The same of what is predicted of n emulated iterations: those beyond the recorded ones are the last one again. */
double report_predicted_mean(const struct prediction *p, uint32_t n);

/* Into the trace folder, and to conf.report if that is set. Atomic. */
int report_write(const struct daemon *d, const struct trace_manifest *m, const struct report *report,
                 const struct results *results, const struct prediction *predicted, struct prism_error *err);

#endif
