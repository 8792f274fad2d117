/* events.h - which RECORD node an event stands for now. session_lock held throughout. In emulation (session.only_gates) there are none. */
#ifndef PRISM_PRELOAD_EVENTS_H
#define PRISM_PRELOAD_EVENTS_H

#include <stdint.h>

#include <cuda.h>

#include "preload/gate/streams.h"

/* The program is about to record event on stream: node RECORD, with its time; the caller makes the real call after. */
void events_record(CUevent event, struct stream *s);
/* Index + 1 of the latest RECORD of the event, 0 if we saw none. */
uint32_t events_latest(CUevent event);
void events_forget(CUevent event);
/* A RECORD node at the tail of the stream without an event of the program; returns index + 1. */
uint32_t events_mark(struct stream *s);
/* Make `to` wait for all that is on `from` by an event of our own, with its nodes. */
void events_tie(struct stream *from, struct stream *to);
/* Emulation has no such nodes; the host goes on. Any thread, no lock. */
void events_left_out(void);

#endif
