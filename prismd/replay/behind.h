/* behind.h - a live rank's emulated clock, which stands still while the replay has not said yet when a gate opens.
 *
 * Where the replay has more nodes to play than it can in real time (an unfolded world of thousands on a few cores), ends become known
 * when they are past. Opened at once, each such gate would make its rank late, and with it all that wait for it: iterations would last
 * as long as they take to be computed. So the rank's clock is set back by what the end is late:
 *
 *     emulated time = the machine's time - behind
 *
 * Arrivals are told in emulated time, gates open at their ends + behind. This is slow motion, as much as needed: a rank that waits for
 * one that fell behind falls behind as much. Where nothing is late by BEHIND_LEAST_NS, it is real time (what is less is pacing's: pace.h).
 *
 * What it costs in truth: work that ran on another stream while the clock stood still seems to have taken less time. An arrival is never
 * before the end of its stream's last operation.
 */
#ifndef PRISM_PRISMD_BEHIND_H
#define PRISM_PRISMD_BEHIND_H

#include <stdint.h>

#define BEHIND_LEAST_NS 1000000
/* Lateness that is made up for later (origins.h), at most. What does not find an end that can be met is no debt for ever. */
#define BEHIND_CARRIED_MOST_NS 10000000

struct behind {
    int64_t ns;
    int64_t *ends; /* owned; by stream: emulated end of its last operation */
    uint32_t nstreams;
};

void behind_clear(struct behind *b);
/* A stream stood at a gate at that time of the machine: the emulated time. */
int64_t behind_arrival(const struct behind *b, uint32_t stream, int64_t ns);
/* At `now` it became known that a gate opens at open_ns, both of the machine: sets the clock back if that is too late, and returns by how
 * much; what is due for the rank is due so much later. carried_ns: of that, what the group arrived too late, which is made up for. */
int64_t behind_late(struct behind *b, int64_t open_ns, int64_t now_ns, int64_t carried_ns);
/* The stream's operation ended, emulated time. */
void behind_ended(struct behind *b, uint32_t stream, int64_t end_ns);

#endif
