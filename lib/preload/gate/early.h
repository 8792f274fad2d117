/* early.h - capture with context switching: inputs that leave the device before the gates in front of them open.
 *
 * All that lies behind a closed gate on a stream S waits for it. A backward pass of DDP issues one all-reduce after the other
 * on one stream: if each began only when the one before is over, a rank that shares its device would have to be brought
 * back once for each of them, to copy some megabytes out of its many gigabytes. But nothing of S is needed for that
 * except what S itself waited for. So S has a side stream T, which waits for all that S waits for but the gates:
 *
 *     S:  … record E · inputs · arrive 1 · go 1 · results · wait e · here 2 · go 2 · results …
 *     T:  … wait E ·                                        wait e · inputs 2 · arrive 2
 *
 * Operation 2 goes early if (1) the gate before it on S is closed; (2) it is a collective on the same communicator, so its
 * order among the operations it meets is the same, and a program that hangs still hangs; (3) nothing but gates and event
 * waits was put on S since E (park.h tells); (4) its inputs do not overlap the results of the
 * operations since E. Anything else is issued as ever, and T begins anew behind it. Arrivals in capture are not times.
 * A program's own cuStreamWaitValue on S is not seen; nobody does that to a stream of NCCL calls.
 * prismd is told by the node (msg_node.early) and opens the gates of a stream in their order. session_lock held throughout.
 */
#ifndef PRISM_PRELOAD_EARLY_H
#define PRISM_PRELOAD_EARLY_H

#include <stdbool.h>

#include <cuda.h>

struct gate;
struct stream;

/* The gate may go early; to be asked before it is noted as the stream's latest. */
bool early_may(const struct gate *g);
/* Before anything of an operation that goes as ever is put on the stream, and before park_gate. */
void early_follow(const struct gate *g);
/* Copy the inputs and arrive, on the side stream. */
void early_arrive(const struct gate *g);
/* S was made to wait for the event. */
void early_wait(struct stream *s, CUevent event);
/* S waits for something else: nothing goes early before the next operation. */
void early_break(struct stream *s);
/* S is destroyed next. */
void early_forget(struct stream *s);

#endif
