#include "prismd/mover/limit.h"

#include <stdlib.h>

#include "prismd/mover/available.h"

#define SHARE 32u /* of the memory is kept free */
#define LEAST (1ull << 30)
#define MOST  8u /* not more than an eighth for the sake of LEAST */

static const char *given(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

bool limit_is_given(void)
{
    return given("PRISM_HOST_POOL");
}

uint64_t limit_pinned(unsigned movers)
{
    const char *text = given("PRISM_HOST_POOL");
    struct available now;
    available_look(&now);
    uint64_t all = text ? strtoull(text, NULL, 10) : now.bytes == UINT64_MAX ? 0 : now.bytes / 10 * 6;
    return all / (movers ? movers : 1);
}

uint64_t limit_reserve(uint64_t total)
{
    const char *text = given("PRISM_HOST_RESERVE");
    uint64_t bytes = total / SHARE > LEAST ? total / SHARE : LEAST;
    return text ? strtoull(text, NULL, 10) : bytes < total / MOST ? bytes : total / MOST;
}
