/* shrunk.h - the real NCCL communicator behind one of the program's: its sandbox ranks and one or two assistants. */
#ifndef PRISM_PRELOAD_SHRUNK_H
#define PRISM_PRELOAD_SHRUNK_H

#include <stdint.h>

#include <nccl.h>

#include "coll/plan.h"
#include "preload/nccl/group.h"
#include "preload/nodes/blocked.h"
#include "proto/message.h"

/* Real NCCL, loaded with the first shrunk communicator. real_nccl(AllReduce)(...) calls ncclAllReduce. */
#define REAL_NCCL_FUNCTIONS(F)                                                                                        \
    F(CommInitRank) F(CommDestroy) F(GroupStart) F(GroupEnd) F(AllReduce) F(Reduce) F(Broadcast) F(Send) F(Recv)      \
    F(RedOpCreatePreMulSum) F(GetErrorString)
struct real_nccl {
#define REAL_NCCL_MEMBER(name) __typeof__(&nccl##name) name;
    REAL_NCCL_FUNCTIONS(REAL_NCCL_MEMBER)
#undef REAL_NCCL_MEMBER
};
extern struct real_nccl real_nccl_;
#define real_nccl(name) real_nccl_.name

/* Ends the run when a call of real NCCL fails. */
#define NCCL_MUST(call)                                    \
    do {                                                   \
        ncclResult_t nccl_must_ = (call);                  \
        if (nccl_must_ != ncclSuccess)                     \
            shrunk_failed(#call, nccl_must_);              \
    } while (0)
_Noreturn void shrunk_failed(const char *call, ncclResult_t result);

struct shrunk {
    ncclComm_t real;
    int size;       /* of the full communicator */
    int me;         /* this rank's participant number */
    int nsandbox;
    int *sandbox;   /* owned; ascending ranks of the full communicator */
    int assistants;
    struct blocked_nccl blocked; /* its calls so far */
    struct shrunk_plan *plans;  /* hash; for count 1 */
    struct shrunk_redop *redops; /* hash; PreMulSum operations of the real communicator */
};

/* An address within the real NCCL that shrunk communicators are made with; NULL: there is none. */
void *shrunk_library(void);
/* Join the real communicator that COMM_READY names; blocks until all have. */
struct shrunk *shrunk_create(const struct msg_comm_ready *ready);
void shrunk_destroy(struct shrunk *s); /* NULL is fine */

/* The plan of a collective, made for count 1; kept. redop: enum coll_redop. Ends the run if it cannot be pruned. */
const struct coll_plan *shrunk_plan(struct shrunk *s, int op, int root, int datatype, int redop);
/* The plan of this rank's own side of a group of messages; the caller destroys it. */
struct coll_plan *shrunk_messages(struct shrunk *s, const struct coll_message *messages, size_t n);
/* The real operation for a plan's redop; own: the factor of the program's PreMulSum, else 0. */
ncclRedOp_t shrunk_redop(struct shrunk *s, const struct coll_plan *plan, int datatype, uint64_t own);

#endif
