#include "coll/synthetic.h"

#include <string.h>

#include "coll/reduce.h"
#include "coll/types.h"

#define PERIOD 256u /* elements */

_Static_assert(COLL_SYNTHETIC_BLOCK % (PERIOD * 8) == 0, "doubling a block goes on with the pattern");

bool coll_synthetic_keeps(int datatype, uint64_t bytes)
{
    return bytes <= COLL_SYNTHETIC_KEEPS || !coll_datatype_is_float(datatype);
}

uint64_t coll_synthetic_kept(int datatype, uint64_t bytes)
{
    return coll_synthetic_keeps(datatype, bytes) ? bytes : 0;
}

void coll_synthetic_fill(void *out, uint64_t bytes, int datatype)
{
    uint8_t block[PERIOD * 8];
    size_t size = coll_datatype_size(datatype);
    for (uint32_t i = 0; i < PERIOD; i++) {
        /* An odd multiplier visits every step of the range before it repeats. */
        double value = ((double)(i * 167u % PERIOD) / (PERIOD - 1) - 0.5) / 16;
        struct coll_premul bits = coll_premul_from_double(value, datatype);
        memcpy(block + i * size, &bits.bits, size);
    }
    uint8_t *to = out;
    for (uint64_t done = 0; done < bytes; done += PERIOD * size)
        memcpy(to + done, block, bytes - done < PERIOD * size ? bytes - done : PERIOD * size);
}
