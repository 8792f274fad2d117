#include "prismd/ranks/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "prismd/link/link.h"
#include "prismd/place.h"

/* Live ranks of the phase are known as their records; those of other machines only by the rule that placed them. */
static uint32_t machine_of(const struct daemon *d, uint32_t node)
{
    const struct conf *c = d->conf;
    uint32_t first = node * c->gpus_per_node;
    if (d->phase == PHASE_CAPTURE)
        return place_capture_node(c, first);
    for (uint32_t i = 0; d->phase == PHASE_EMULATE && i < c->nsandbox; i++)
        if (c->sandbox[i] / c->gpus_per_node == node)
            return place_live_node(c, i, c->nsandbox);
    for (uint32_t r = first; r < first + c->gpus_per_node && r < c->world; r++)
        if (d->ranks && d->ranks[r])
            return c->node;
    return 0;
}

static void put_run(FILE *out, const struct daemon *d, uint32_t first, uint32_t last, uint32_t machine)
{
    char own[256] = "localhost";
    gethostname(own, sizeof own - 1);
    fprintf(out, "%s%u-%u=%s", first ? "," : "", first, last, machine == d->conf->node ? own : link_address(d, machine));
}

char *hosts_of_nodes(const struct daemon *d)
{
    uint32_t nodes = (d->conf->world + d->conf->gpus_per_node - 1) / d->conf->gpus_per_node;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    for (uint32_t first = 0, i = 1; i <= nodes; i++)
        if (i == nodes || machine_of(d, i) != machine_of(d, first)) {
            put_run(out, d, first, i - 1, machine_of(d, first));
            first = i;
        }
    fclose(out);
    return text;
}
