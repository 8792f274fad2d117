#include "prismd/assistants/ballast.h"

#include <stdlib.h>

#include "coll/ballast.h"

static struct {
    bool active;
    struct coll_ballast table;
    uint64_t *bytes; /* owned; by world rank */
    uint8_t *began;  /* owned; by world rank: has a communicator */
} ba;

int ballast_begin(const struct daemon *d, struct prism_error *err)
{
    const char *path = getenv("PRISM_BALLAST");
    if (d->phase != PHASE_EMULATE || !path || !*path)
        return 0;
    if (coll_ballast_load(&ba.table, path, err))
        return -1;
    ba.bytes = calloc(d->conf->world, sizeof *ba.bytes);
    ba.began = calloc(d->conf->world, 1);
    if (!ba.bytes || !ba.began)
        abort();
    ba.active = true;
    return 0;
}

void ballast_end(void)
{
    coll_ballast_clear(&ba.table);
    free(ba.bytes);
    free(ba.began);
    ba.bytes = NULL;
    ba.began = NULL;
    ba.active = false;
}

void ballast_ask(const struct rank *r, struct msg_comm_ready *ready)
{
    if (!ba.active || ready->size < 2)
        return;
    uint64_t missing = coll_ballast_missing(&ba.table, ready->size, ready->real_size, !ba.began[r->number]);
    ba.began[r->number] = 1;
    uint64_t kib = (missing + 1023) >> 10;
    ready->ballast_kib = kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX; /* no device has so much */
    ready->ballast_nccl = (uint32_t)ba.table.nccl;
    ba.bytes[r->number] += (uint64_t)ready->ballast_kib << 10;
}

uint64_t ballast_bytes(uint32_t rank)
{
    return ba.active ? ba.bytes[rank] : 0;
}
