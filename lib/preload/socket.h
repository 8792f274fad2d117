/* socket.h - the connection to the node's prismd: abstract SOCK_SEQPACKET, one datagram a message (proto/message.h).
 *
 * A lost connection ends the process (exit code PRISM_EXIT_DAEMON): a rank without its prismd can only hang.
 */
#ifndef PRISM_PRELOAD_SOCKET_H
#define PRISM_PRELOAD_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

#define SOCKET_DESCRIPTORS 3

/* Connect to the abstract name and say HELLO; fills welcome and the descriptors, which are the
 * caller's to close: the region's, the mover's socket, the board's (-1: none).
 * 0 welcomed, 1 refused (another process is this rank). */
int socket_hello(const char *name, uint32_t rank, const char *key, struct msg_welcome *welcome, int descriptors[SOCKET_DESCRIPTORS]);
/* Messages that may wait: kept, in order, and sent in one datagram with the next message that may not, or by socket_flush.
 * For those that prismd needs soon enough if they come with the next gate (nodes of events and host waits). */
void socket_queue(const void *message, size_t size);
void socket_flush(void);
/* Send one message, behind what is queued; header->size must be set. Thread-safe: a datagram goes whole. */
void socket_send(const void *message, size_t size);
void socket_send_parts(const void *message, size_t size, const void *more, size_t more_size);
/* Send, then wait for a COMM_READY of that communicator; buffer gets the datagram (at least MSG_MAX bytes); returns its length.
 * Several threads may ask at once: what they ask for may become ready in any order. */
size_t socket_ask(const void *message, size_t size, uint32_t comm, void *buffer);
/* Close without a word (forked child). */
void socket_drop(void);
/* Wait until prismd hangs up, at most ms. */
void socket_await_close(int ms);
bool socket_is_open(void);

#endif
