#include "prismd/link/greeting.h"

#include <string.h>

enum greeting_of greeting_check(const struct greeting *mine, struct greeting *g)
{
    unsigned diff = 0;
    for (int i = 0; i < GREETING_KEY; i++)
        diff |= (unsigned)(g->key[i] ^ mine->key[i]);
    g->step[sizeof g->step - 1] = g->host[sizeof g->host - 1] = g->name[sizeof g->name - 1] = 0;
    g->credential[sizeof g->credential - 1] = g->release[sizeof g->release - 1] = 0;
    if (diff || g->magic != GREETING_MAGIC)
        return GREETING_STRANGER;
    if (g->version != mine->version || strcmp(g->release, mine->release))
        return GREETING_ANOTHER_BUILD;
    return g->nodes == mine->nodes && g->node < g->nodes && !strcmp(g->step, mine->step) &&
                   g->credential_len < sizeof g->credential
               ? GREETING_OURS
               : GREETING_STRANGER;
}
