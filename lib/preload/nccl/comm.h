/* comm.h - what the program holds as ncclComm_t. Programs never look inside; numbers name it to prismd. */
#ifndef PRISM_PRELOAD_COMM_H
#define PRISM_PRELOAD_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <nccl.h>

#include "preload/nodes/blocked.h"

#define COMM_MAGIC 0x70726d63u
#define COMM_REDOPS_FIRST 0x100 /* reduction operations of the program count from here */

struct redop { /* made by ncclRedOpCreatePreMulSum */
    bool used;
    uint8_t datatype;
    uint64_t scalar;  /* bits of the datatype */
    const void *where; /* device memory that has the scalar, read when an operation is called; NULL: it is above */
};

struct comm {
    uint32_t magic;
    uint32_t number; /* the rank's own numbers of communicators: 0, 1, 2 ... by creation */
    int size, rank;
    int device;
    uint32_t groups; /* issued so far: the ordinal of the next */
    struct redop *redops;
    int nredops;
    CUdeviceptr ballast;   /* owned; 0 = none */
    struct blocked_nccl calls; /* calibration: what its gates took the host so far */
    struct shrunk *shrunk; /* owned; NULL unless real NCCL carries this communicator (transport nccl) */
};

/* NULL when comm is none of ours or has been destroyed. */
struct comm *comm_of(ncclComm_t comm);
/* Join the communicator of a unique id. In a group this, and comm_split, are done by comm_group_end. */
ncclResult_t comm_init(ncclComm_t *out, int size, const ncclUniqueId *id, int rank);
ncclResult_t comm_split(struct comm *parent, int color, int key, ncclComm_t *out);
/* Makes what the thread's group asked for, all at once; the first error. comm_discard: forgets it. */
ncclResult_t comm_group_end(void);
void comm_discard(void);
void comm_free(struct comm *c);
/* A token: our magic and 16 random bytes. */
ncclResult_t comm_unique_id(ncclUniqueId *id);

ncclResult_t comm_redop_create(struct comm *c, ncclRedOp_t *op, const void *scalar, ncclDataType_t datatype,
                               ncclScalarResidence_t residence);
ncclResult_t comm_redop_destroy(struct comm *c, ncclRedOp_t op);
/* The program's own operation, NULL for NCCL's and unknown ones. It may be destroyed before the group that it is used in ends. */
const struct redop *comm_redop(const struct comm *c, int op);

#endif
