/* connections.h - CUDA_DEVICE_MAX_CONNECTIONS, the number of hardware queues, which CUDA reads when it starts.
 *
 * Each stream that stands at a closed gate holds a queue, so CUDA gets 32, the most there are, while the program keeps
 * reading the value it was given: the variable is changed only around the calls that make CUDA read it.
 */
#ifndef PRISM_PRELOAD_CONNECTIONS_H
#define PRISM_PRELOAD_CONNECTIONS_H

void connections_widen(void);
void connections_restore(void);

#endif
