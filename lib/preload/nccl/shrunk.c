#include "preload/nccl/shrunk.h"

#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "coll/number.h"
#include "preload/preload.h"
#include "preload/real.h"

struct real_nccl real_nccl_;

struct shrunk_plan {
    struct {
        int op, root, datatype, redop;
    } key;
    struct coll_plan *plan; /* owned */
    UT_hash_handle hh;
};

struct shrunk_redop {
    struct {
        uint64_t datatype, scalar;
    } key;
    ncclRedOp_t real;
    UT_hash_handle hh;
};

/* --- real NCCL --- */

_Noreturn void shrunk_failed(const char *call, ncclResult_t result)
{
    session_fatal(PRISM_EXIT_SYSTEM, "rank %u: NCCL error %d (%s) in %s", session.rank, (int)result,
                  real_nccl(GetErrorString)(result), call);
}

static void load(void)
{
    if (real_nccl(GetErrorString))
        return;
#define FIND(name)                                                                                                    \
    if (!(real_nccl(name) = (__typeof__(&nccl##name))real_find(REAL_NCCL, "nccl" #name)))                             \
        session_fatal(PRISM_EXIT_UNSUPPORTED, "rank %u: libnccl.so.2 is missing or has no nccl" #name                 \
                      "; use paced emulation (--prism-assistants=0)", session.rank);
    REAL_NCCL_FUNCTIONS(FIND)
#undef FIND
    /* NCCL's own threads and allocations are not the program's. */
    real_exclude_library((void *)real_nccl(CommInitRank));
}

void *shrunk_library(void)
{
    return real_find(REAL_NCCL, "ncclCommInitRank");
}

struct shrunk *shrunk_create(const struct msg_comm_ready *ready)
{
    load();
    struct shrunk *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->size = ready->size;
    s->me = ready->real_rank;
    s->nsandbox = (int)ready->nsandbox;
    s->assistants = (int)ready->assistants;
    s->sandbox = malloc((size_t)s->nsandbox * sizeof *s->sandbox);
    if (!s->sandbox)
        abort();
    memcpy(s->sandbox, ready + 1, (size_t)s->nsandbox * sizeof *s->sandbox);
    ncclUniqueId id;
    memcpy(&id, ready->unique_id, sizeof id);
    NCCL_MUST(real_nccl(CommInitRank)(&s->real, ready->real_size, id, ready->real_rank));
    return s;
}

void shrunk_destroy(struct shrunk *s)
{
    if (!s)
        return;
    struct shrunk_plan *p, *next_plan;
    HASH_ITER(hh, s->plans, p, next_plan)
    {
        HASH_DEL(s->plans, p);
        coll_plan_destroy(p->plan);
        free(p);
    }
    struct shrunk_redop *r, *next_redop;
    HASH_ITER(hh, s->redops, r, next_redop)
    {
        HASH_DEL(s->redops, r);
        free(r);
    }
    real_nccl(CommDestroy)(s->real);
    free(s->sandbox);
    free(s);
}

/* --- plans --- */

/* A communicator without virtual ranks has no assistant; plans want at least one and use none then. */
static int assistants(const struct shrunk *s)
{
    return s->assistants > 0 ? s->assistants : 1;
}

static _Noreturn void cannot(const struct prism_error *err)
{
    session_fatal(err->code ? err->code : PRISM_EXIT_UNSUPPORTED, "rank %u: %s", session.rank, err->text);
}

const struct coll_plan *shrunk_plan(struct shrunk *s, int op, int root, int datatype, int redop)
{
    struct shrunk_plan *p, wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.key.op = op;
    wanted.key.root = root;
    wanted.key.datatype = datatype;
    wanted.key.redop = redop;
    HASH_FIND(hh, s->plans, &wanted.key, sizeof wanted.key, p);
    if (p)
        return p->plan;
    struct prism_error err = {0};
    struct coll_request request = {.op = op, .size = s->size, .root = root, .datatype = datatype, .redop = redop, .count = 1,
                                   .sandbox = s->sandbox, .nsandbox = s->nsandbox, .assistants = assistants(s)};
    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->key = wanted.key;
    p->plan = coll_plan_create(&request, &err);
    if (!p->plan)
        cannot(&err);
    HASH_ADD(hh, s->plans, key, sizeof p->key, p);
    return p->plan;
}

/* The calls of one side follow from its own messages alone. */
struct coll_plan *shrunk_messages(struct shrunk *s, const struct coll_message *messages, size_t n)
{
    struct prism_error err = {0};
    const struct coll_message **all = calloc((size_t)s->nsandbox, sizeof *all);
    size_t *counts = calloc((size_t)s->nsandbox, sizeof *counts);
    if (!all || !counts)
        abort();
    all[s->me] = messages;
    counts[s->me] = n;
    struct coll_plan *plan = coll_plan_messages(s->size, s->sandbox, s->nsandbox, assistants(s), all, counts, &err);
    if (!plan)
        cannot(&err);
    free(all);
    free(counts);
    return plan;
}

/* --- reductions --- */

/* 1 / n in the datatype, which is a floating-point one (plan.h, section 4). */
static uint64_t reciprocal(int n, int datatype)
{
    float f = 1.0f / (float)n;
    double d = 1.0 / n;
    uint64_t bits = 0;
    switch (datatype) {
    case COLL_FLOAT64:
        memcpy(&bits, &d, sizeof d);
        return bits;
    case COLL_FLOAT16:
        return fp16_store(f);
    case COLL_BFLOAT16:
        return bf16_store(f);
    case COLL_FLOAT8E4M3:
        return e4m3_store(f);
    case COLL_FLOAT8E5M2:
        return e5m2_store(f);
    default:
        return f32_bits(f);
    }
}

ncclRedOp_t shrunk_redop(struct shrunk *s, const struct coll_plan *plan, int datatype, uint64_t own)
{
    if (plan->redop != COLL_REDOP_PREMUL)
        return (ncclRedOp_t)plan->redop;
    uint64_t scalar = plan->average_of ? reciprocal(plan->average_of, datatype) : own;
    struct shrunk_redop *r, wanted = {.key = {(uint64_t)datatype, scalar}};
    HASH_FIND(hh, s->redops, &wanted.key, sizeof wanted.key, r);
    if (r)
        return r->real;
    r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->key = wanted.key;
    NCCL_MUST(real_nccl(RedOpCreatePreMulSum)(&r->real, &scalar, (ncclDataType_t)datatype, ncclScalarHostImmediate,
                                              s->real));
    HASH_ADD(hh, s->redops, key, sizeof r->key, r);
    return r->real;
}
