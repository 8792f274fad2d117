/* environment.h - the variables that CUDA reads when it starts: CUDA sees Prism's values, the program its own.
 *
 *   CUDA_DEVICE_MAX_CONNECTIONS   hardware queues. In capture (PRISM_WIDEN_CONNECTIONS, set by prismd) each stream that
 *                                 stands at a closed gate holds one, so CUDA gets as many as prismd says (32 at most); in
 *                                 later phases the program's own value rules (gate_kernel.h).
 *   CUDA_VISIBLE_DEVICES          the rank's one physical device (PRISM_DEVICE), where devices are logical (device.h).
 *
 * They are changed only around the calls that make CUDA read them. Calls may nest and come from several threads.
 */
#ifndef PRISM_PRELOAD_ENVIRONMENT_H
#define PRISM_PRELOAD_ENVIRONMENT_H

#include <stdbool.h>

/* Hardware queues that CUDA got in capture. */
unsigned environment_queues(void);

void environment_enter(void);
void environment_leave(void);

/* Around a call that only asks, which launchers and helpers do too: it makes CUDA start, but no process a rank. Calls made
 * from inside pass through. environment_answered takes what environment_ask returned. */
bool environment_ask(void);
void environment_answered(bool asked);

#endif
