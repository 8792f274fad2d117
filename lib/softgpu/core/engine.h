/* engine.h - what libcuda.so.1 of the software GPU offers to the software libcudart and libnccl.
 *
 * Time. Every stream has a model clock: CLOCK_MONOTONIC nanoseconds at which its work so far ends. An item starts at
 *     max(end of the item before it on the stream, model time of the host thread that enqueued it, model ends of the
 *         events it waits for)
 * and ends at start + duration; the stream's thread does the real work and then sleeps until the end (absolute
 * deadline), so a late wake-up is never carried into the model: ends are computed from modelled starts.
 * A host thread has a model clock too: after a synchronisation that waited, the host's model time is the model end of
 * what it waited for, not the (later) moment at which the kernel woke it; then it runs at the speed of the real clock.
 */
#ifndef SOFTGPU_ENGINE_H
#define SOFTGPU_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#define SG_EXPORT __attribute__((visibility("default")))

/* One piece of work for a stream's thread: called when the stream gets there, with the model start (ns).
 * It may block (for peers, for instance); it returns the model end (>= start_ns). After it returns, the stream's
 * thread sleeps until that end before it goes on. */
typedef int64_t (*sg_work_fn)(void *ctx, int64_t start_ns);

/* Enqueue on stream (NULL, cudaStreamLegacy and cudaStreamPerThread are understood). Returns a CUresult. */
SG_EXPORT int sg_stream_enqueue(void *stream, sg_work_fn fn, void *ctx);

/* The device ordinal (within this process) of a stream, or of the current context for NULL. */
SG_EXPORT int sg_stream_device(void *stream);
SG_EXPORT int sg_current_device(void);

/* Where a device sits: node index and index in the node of the machine that the profile describes. Devices of
 * different processes with the same (node, index) are the same device. */
struct sg_place {
    int node;
    int index;
};
SG_EXPORT int sg_device_place(int device, struct sg_place *place);

/* Communication is active on device (within this process) from start_ns to end_ns (model time): kernels that overlap it are slowed as
 * the profile says. Visible to every process that uses the device. */
SG_EXPORT void sg_device_comm_active(int device, int64_t start_ns, int64_t end_ns);

/* The host thread's model time (ns), see above. */
SG_EXPORT int64_t sg_host_now(void);

/* Move the calling host thread's model clock to model_ns after it blocked until then (used by library calls that synchronise). */
SG_EXPORT void sg_host_waited_until(int64_t model_ns);

/* A folder of this user (mode 0700) where the software cluster keeps its shared state files; NULL if it cannot be
 * made. $SOFTGPU_DIR, else a folder under $TMPDIR or /tmp. */
SG_EXPORT const char *sg_state_dir(void);

/* A number of the profile by name (etc/network, etc/device), or fallback when it has none. */
SG_EXPORT double sg_profile_number(const char *name, double fallback);

/* Deterministic jitter: a factor around 1 with the profile's spread, a pure function of (seed of the profile, a, b). */
SG_EXPORT double sg_jitter(uint64_t a, uint64_t b);

#endif
