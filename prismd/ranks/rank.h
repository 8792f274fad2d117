/* rank.h - the processes of logical ranks on this node: spawning, their socket, their end. */
#ifndef PRISM_PRISMD_RANK_H
#define PRISM_PRISMD_RANK_H

#include "prismd/daemon.h"

/* Listen on an abstract socket; connections become ranks by HELLO. */
int rank_listen(struct daemon *d, struct prism_error *err);
void rank_unlisten(struct daemon *d);

/* Make the record of a rank on this node (state WAITING). log_path: where its output goes, NULL = prismd's own; taken over. */
struct rank *rank_create(struct daemon *d, uint32_t number, uint32_t device, char *log_path);
/* Free it, with region and socket; its process must be gone. */
void rank_destroy(struct rank *r);

/* fork + exec of the program as that rank. */
int rank_start(struct rank *r, struct prism_error *err);
/* The process ended with a wait(2) status. */
void rank_reaped(struct rank *r, int status);
/* Signal its whole process group; nothing if it never started or is gone. */
void rank_signal(struct rank *r, int signal);

/* Send COMM_READY. sandbox may be NULL when ready->nsandbox is 0. */
void rank_send_ready(struct rank *r, struct msg_comm_ready *ready, const int32_t *sandbox);

#endif
