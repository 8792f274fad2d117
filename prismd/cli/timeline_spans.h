/* timeline_spans.h - what a rank does when: bars on its streams, and the state of its device, from a timeline. */
#ifndef PRISM_CLI_TIMELINE_SPANS_H
#define PRISM_CLI_TIMELINE_SPANS_H

#include "timeline.h"

/* --- 1. Bars --- */

enum span_kind {
    SPAN_COMPUTE,    /* work of a stream (kernels, copies) before a node */
    SPAN_COLLECTIVE, /* a group with a collective: its transfer, from the last arrival it depends on to its end */
    SPAN_P2P,        /* a group of sends and receives alone: its transfer */
    SPAN_WAIT_COLLECTIVE, /* the stream is at the group, the others are not yet */
    SPAN_WAIT_P2P,
    SPAN_HOST_WORK, /* a host thread's work before a node */
    SPAN_HOST_WAIT, /* a host thread in a synchronisation */
    SPAN_KINDS
};

struct span {
    uint8_t kind;  /* enum span_kind */
    uint32_t line; /* stream, for SPAN_HOST_* host thread */
    uint32_t node; /* the rank's */
    int64_t start, end; /* nanoseconds */
};

struct spans {
    struct span *list; /* owned; in the rank's issue order, no empty ones, on one line none overlaps another */
    size_t n, cap;
};

/* Bars of the slot'th chosen rank that touch [begin_ns, end_ns), cut at it.
 *
 * A node's work lies right behind the node before it on the stream (graph.h: how long a stream works between two nodes is
 * known, not when). Of a group's [start, end) the last duration (prismd/predict/duration.h) is transfer, what lies before it waiting for others. */
void spans_of_rank(const struct timeline *t, uint32_t slot, int64_t begin_ns, int64_t end_ns, struct spans *out);
void spans_clear(struct spans *s);

/* --- 2. States: what the device as a whole does --- */

enum state {
    STATE_IDLE, /* nothing computes, nothing is transferred: pipeline bubbles, waiting for others or for the host */
    STATE_COMPUTE,
    STATE_HIDDEN_COLLECTIVE, /* transfer while another stream computes */
    STATE_HIDDEN_P2P,
    STATE_EXPOSED_COLLECTIVE, /* transfer while nothing computes */
    STATE_EXPOSED_P2P,
    STATES
};

struct state_span {
    enum state state;
    int64_t start, end;
};

/* Covers [begin_ns, end_ns) without gaps, neighbours differ. Returns their number; *out is malloc'ed. While a collective
 * and a send or receive are transferred at once the collective names the state. */
size_t states_of_rank(const struct spans *spans, int64_t begin_ns, int64_t end_ns, struct state_span **out);

#endif
