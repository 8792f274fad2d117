/* net.h - sockets between a rank and its hub: addresses, connecting, frames, the arena's file. */
#ifndef SOFTGPU_NCCL_NET_H
#define SOFTGPU_NCCL_NET_H

#include <stddef.h>
#include <sys/types.h>

#include "softgpu/nccl/wire.h"

/* The same for processes that can reach each other's abstract Unix sockets: boot of the kernel and network
 * namespace. */
uint64_t sgn_host_id(void);
/* SOFTGPU_NCCL_TRANSPORT=tcp: as if every two processes were on different hosts. */
bool sgn_only_tcp(void);

/* Listening sockets of a hub. Fills secret, host, port and addresses of id. *local_fd may become -1. Returns
 * 0, or -1 with the reason in text. Addresses: NCCL_SOCKET_IFNAME as in NCCL ("eth", "=eth0", "^docker"),
 * else all that are up. */
int sgn_net_listen(struct sgn_id *id, int *local_fd, int *tcp_fd, char text[SGN_TEXT]);

/* A connected, blocking, close-on-exec socket to the hub of id; *local tells which kind. -1: text says why.
 */
int sgn_net_connect(const struct sgn_id *id, bool *local, char text[SGN_TEXT]);

/* Send a frame in parts (each may be NULL with 0 bytes), passing fd along if it is not -1. Blocks. -1: the
 * peer is gone. */
struct sgn_part {
    const void *data;
    size_t bytes;
};
int sgn_net_send(int socket, uint32_t type, const struct sgn_part *parts, int count, int fd);

/* Reading frames as bytes arrive, from a socket that may have none yet. */
struct sgn_reader {
    struct sgn_frame frame;
    uint8_t *body; /* owned; frame.bytes bytes */
    size_t have;   /* of frame and body together */
    int fd;        /* that came along, -1: none; the owner of the reader closes it */
};

enum sgn_read { SGN_READ_MORE, SGN_READ_FRAME, SGN_READ_END };

/* SGN_READ_FRAME: frame and body are complete; take the body (set it to NULL) or leave it, then call again.
 */
enum sgn_read sgn_reader_step(struct sgn_reader *reader, int socket, uint64_t limit);
void sgn_reader_next(struct sgn_reader *reader); /* forget the frame that was read */

/* --- the arena: a memory file that a rank and its hub both map --- */

int sgn_arena_create(void **base); /* file descriptor, or -1: do without */
void *sgn_arena_map(int fd);       /* NULL: cannot */
void sgn_arena_unmap(void *base);  /* takes NULL */

/* Change a quiet doorbell to `ring` and wake who waits for it, in any process. No effect once it has rung. */
void sgn_doorbell_ring(struct sgn_doorbell *doorbell, enum sgn_bell ring);
enum sgn_bell sgn_doorbell_wait(struct sgn_doorbell *doorbell); /* until it rings */

#endif
