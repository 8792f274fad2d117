/* rank_double.h - ranks of a daemon without processes or sockets, for targets that give them datagrams. Once a program. */
#ifndef PRISM_TESTS_FUZZ_RANK_DOUBLE_H
#define PRISM_TESTS_FUZZ_RANK_DOUBLE_H

#include <stdlib.h>
#include <string.h>

#include "prismd/capture/membership.h"
#include "prismd/ranks/dispatch.h"

#define REGION (REGION_HEAP_OFFSET + 4096)

static struct rank *make_rank(struct daemon *d, uint32_t number)
{
    struct rank *r = calloc(1, sizeof *r);
    if (!r || !(r->region = calloc(1, REGION)))
        abort();
    r->daemon = d;
    r->number = number;
    r->socket = -1;
    r->region_size = REGION;
    return r;
}

static void free_group(struct group *g)
{
    free(g->parts);
    free(g->sequence);
    free(g);
}

static void free_rank(struct rank *r)
{
    while (r->groups) {
        struct group *next = r->groups->next_of_rank;
        free_group(r->groups);
        r->groups = next;
    }
    if (r->assembling)
        free_group(r->assembling);
    membership_clear(r);
    free(r->streams);
    free(r->region);
    free(r);
}

/* The header's size is made right; a datagram lies where 8 divides the address, as prismd reads it. */
static void datagram(struct daemon *d, struct rank *r, const uint8_t *data, uint32_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    memcpy(copy, data, len);
    if (len >= sizeof(struct msg_header))
        ((struct msg_header *)copy)->size = len;
    dispatch_message(d, r, copy, len);
    free(copy);
}

#endif
