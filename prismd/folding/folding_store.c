/* folding_store.c - what absent ranks would have done to the c10d store, as far as it is known. */
#include <stdio.h>
#include <string.h>

#include "prismd/folding/folding.h"
#include "prismd/capture/gloo.h"
#include "prismd/ranks/listen.h"

/* Keys on which every rank of the world counts itself:
 *   init/                                TCPStore's own (TCPStore.cpp, initKey_)
 *   store_based_barrier_key:NAME         torch.distributed (distributed_c10d.py), waited for with the size of the world unless
 *                                        a group is made with use_local_synchronization
 *   PREFIX/num_members                   torch.distributed.elastic.utils.store.barrier
 * Prefixes of stores in front of them are parts of the path. */
static bool counts_the_world(const char *key, size_t len)
{
    static const char barrier[] = "store_based_barrier_key:", members[] = "/num_members", init[] = "init/";
    size_t n = strlen(members), m = strlen(init);
    return memmem(key, len, barrier, strlen(barrier)) || (len >= n && !memcmp(key + len - n, members, n)) ||
           (len >= m && !memcmp(key + len - m, init, m) && (len == m || key[len - m - 1] == '/'));
}

void folding_hear(struct daemon *d)
{
    const struct fold *f = d->conf->fold;
    if (!f || d->phase != PHASE_CAPTURE)
        return;
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; d->ranks && i < f->nlive; i++)
        if (d->ranks[f->live[i]])
            listen_drain(d->ranks[f->live[i]]);
    pthread_mutex_unlock(&d->lock);
}

uint32_t folding_store_others(const struct daemon *d, uint32_t rank, const struct c10d_mutation *m)
{
    const struct fold *f = d->conf->fold;
    uint32_t absent = 0;
    bool of_world = m->kind == C10D_BARRIER && m->delta == d->conf->world;
    if (!f || d->phase != PHASE_CAPTURE || rank >= f->world || !m->delta || (!of_world && !counts_the_world(m->key, m->key_len)))
        return 0;
    for (uint32_t i = 0; i < f->world; i++)
        absent += f->representative[i] == rank && i != rank;
    return absent;
}

void folding_store_set(struct daemon *d, uint32_t rank, const void *key, size_t len)
{
    char name[GLOO_NAME_MAX];
    if (!d->conf->fold || d->phase != PHASE_CAPTURE || !gloo_names_group(key, len, name))
        return;
    pthread_mutex_lock(&d->lock);
    if (!d->stopping)
        daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                    "rank %u makes a Gloo process group (\"%s\" in the store), which communicates on the CPU, where ranks that are folded "
                    "away cannot stand in: name the backend in init_process_group(\"nccl\") and new_group, or capture without --prism-fold",
                    rank, name);
    pthread_mutex_unlock(&d->lock);
}

bool folding_allows_pmix(struct daemon *d, uint32_t rank)
{
    if (!d->conf->fold || d->phase != PHASE_CAPTURE)
        return true;
    pthread_mutex_lock(&d->lock);
    daemon_fail(d, PRISM_EXIT_UNSUPPORTED,
                "rank %u calls PMIx (MPI_Init?) for the namespace of %u ranks: what its members say to each other is not seen, so ranks that "
                "are folded away cannot stand in; capture without --prism-fold",
                rank, d->conf->world);
    pthread_mutex_unlock(&d->lock);
    return false;
}
