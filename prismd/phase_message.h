/* phase_message.h - LINK_PHASE: what the coordinator tells all nodes at the beginning of a phase.
 *
 * u32 phase, u32 transport, string host and u32 port of the store, u32 1 = read the graph again, u32 exit code and string why this
 * step may not be captured (0 = it may), string the trace's folder, u32 nodes that captured it, u32 what its payloads hold and u32 what
 * is delivered of that, or captured (enum trace_payload, not UNSAID; both the same in capture), u32 n, n times u32 rank that runs,
 * ascending.
 */
#ifndef PRISM_PRISMD_PHASE_MESSAGE_H
#define PRISM_PRISMD_PHASE_MESSAGE_H

#include "common/bytes.h"
#include "proto/message.h"
#include "trace/trace.h"

struct phase_message {
    enum msg_phase kind;
    enum msg_transport transport;
    char *host;
    uint16_t port;
    bool reload;
    int refusal;
    char *refused, *trace;
    uint32_t trace_nodes;
    enum trace_payload trace_payload, payload;
    uint32_t *live;
    uint32_t nlive;
};

/* Borrows what m points at. */
void phase_message_put(const struct phase_message *m, struct bytes *out);
/* All strings and live are then owned by m, as phase_message_clear frees them. -1: malformed, m is clear. */
int phase_message_take(struct phase_message *m, struct bytes_reader *b, uint32_t world);
void phase_message_clear(struct phase_message *m);

#endif
