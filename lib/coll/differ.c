#include "coll/differ.h"

#include <math.h>
#include <string.h>

#include "coll/number.h"
#include "coll/types.h"

static double element(const void *at, uint64_t i, int datatype)
{
    switch (datatype) {
    case COLL_INT8: return ((const int8_t *)at)[i];
    case COLL_UINT8: return ((const uint8_t *)at)[i];
    case COLL_INT32: return ((const int32_t *)at)[i];
    case COLL_UINT32: return ((const uint32_t *)at)[i];
    case COLL_INT64: return (double)((const int64_t *)at)[i];
    case COLL_UINT64: return (double)((const uint64_t *)at)[i];
    case COLL_FLOAT16: return fp16_load(((const uint16_t *)at)[i]);
    case COLL_FLOAT32: return ((const float *)at)[i];
    case COLL_FLOAT64: return ((const double *)at)[i];
    case COLL_BFLOAT16: return bf16_load(((const uint16_t *)at)[i]);
    case COLL_FLOAT8E4M3: return e4m3_load(((const uint8_t *)at)[i]);
    case COLL_FLOAT8E5M2: return e5m2_load(((const uint8_t *)at)[i]);
    default: return NAN;
    }
}

void coll_differ(const void *a, const void *b, uint64_t n, int datatype, struct coll_difference *sum)
{
    for (uint64_t i = 0; i < n; i++) {
        double x = element(a, i, datatype), y = element(b, i, datatype);
        if (!isfinite(x) || !isfinite(y))
            continue;
        sum->apart += fabs(x - y);
        sum->magnitude += (fabs(x) + fabs(y)) / 2;
    }
}
