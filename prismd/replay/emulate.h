/* emulate.h - calibration and emulation: some ranks run, the others are replayed around them.
 *
 * A live rank's gate arrives; the graph (graph/run.h) says when its operation may end; the watch thread opens the gate then. Its outputs
 * come from the payload store. Every node replays the whole world for its own live ranks; arrivals cross nodes.
 */
#ifndef PRISM_PRISMD_EMULATE_H
#define PRISM_PRISMD_EMULATE_H

#include "prismd/daemon.h"
#include "prismd/replay/delivery.h"

extern const struct phase_ops emulate_ops;

/* live: world ranks that run in this phase, all nodes'. d->graph has been read. */
int emulate_begin(struct daemon *d, const uint32_t *live, uint32_t nlive, struct prism_error *err);
/* Other nodes' ranks need nothing of this node any more (assistants serve all nodes). */
bool emulate_may_end(const struct daemon *d);
/* A thread plays the graph: ends of gates may yet become known without another arrival (player.h). */
bool emulate_is_playing(void);
/* Calibration: works of this node's ranks have been put into d->graph when this returns. */
void emulate_end(struct daemon *d);

/* What the report says about a rank of this node (after its end, before emulate_end). Iteration i took seconds[i]. */
struct emulate_result {
    double *seconds; /* owned by emulate */
    uint32_t iterations;
    bool has_iterations; /* it communicates in them: they can be counted */
    const char *over;    /* owned by emulate; calibration: why the rank is not played on behind the recorded iterations; NULL: it is */
    double behind_seconds; /* how long its clock stood still (behind.h) */
};
struct emulate_result emulate_rank_result(const struct daemon *d, uint32_t rank);
/* Actual - intended end of every gate, microseconds, positive = late; n of them. Owned by emulate. */
const double *emulate_pacing_us(uint32_t *n);
struct delivery_counts emulate_delivery_counts(void); /* with the assistants' size changes */
uint32_t emulate_first_change(void); /* iteration (from 0) of the first such group; UINT32_MAX = none */

#endif
