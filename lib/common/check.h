/* check.h - memory that there must be: malloc's answer, or the end of the process by abort(). */
#ifndef PRISM_COMMON_CHECK_H
#define PRISM_COMMON_CHECK_H

#include <stdlib.h>

static inline void *check(void *p)
{
    if (!p)
        abort();
    return p;
}

#endif
