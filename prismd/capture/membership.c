#include "prismd/capture/membership.h"

#include <stdlib.h>
#include <string.h>

struct membership *rank_comm(struct rank *r, uint32_t comm)
{
    if (comm >= r->comms_cap) {
        uint32_t cap = r->comms_cap ? r->comms_cap * 2 : 8;
        while (cap <= comm)
            cap *= 2;
        r->comms = realloc(r->comms, cap * sizeof *r->comms);
        if (!r->comms)
            abort();
        memset(r->comms + r->comms_cap, 0, (cap - r->comms_cap) * sizeof *r->comms);
        r->comms_cap = cap;
    }
    for (; r->ncomms <= comm; r->ncomms++)
        r->comms[r->ncomms].global = -1;
    return &r->comms[comm];
}

void rank_comm_made(struct rank *r, uint32_t comm, int32_t global, int32_t size, int32_t comm_rank)
{
    struct membership *m = rank_comm(r, comm);
    m->global = global;
    m->size = size;
    m->rank = comm_rank;
}

void membership_clear(struct rank *r)
{
    for (uint32_t i = 0; i < r->ncomms; i++) {
        free(r->comms[i].sends);
        free(r->comms[i].recvs);
    }
    free(r->comms);
}
