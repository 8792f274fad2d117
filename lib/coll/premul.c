/* premul.c - apart from the reductions, which the preload library does without. */
#include <string.h>

#include "coll/number.h"
#include "coll/reduce.h"
#include "coll/types.h"

struct coll_premul coll_premul_from_double(double value, int datatype)
{
    struct coll_premul p = {0};
    float f = (float)value;
    int64_t integer = coll_datatype_is_float(datatype) ? 0 : (int64_t)value;
    switch (datatype) {
    case COLL_FLOAT16:
        p.bits = fp16_store(f);
        break;
    case COLL_BFLOAT16:
        p.bits = bf16_store(f);
        break;
    case COLL_FLOAT8E4M3:
        p.bits = e4m3_store(f);
        break;
    case COLL_FLOAT8E5M2:
        p.bits = e5m2_store(f);
        break;
    case COLL_FLOAT32:
        p.bits = f32_bits(f);
        break;
    case COLL_FLOAT64:
        memcpy(&p.bits, &value, sizeof value);
        break;
    default:
        memcpy(&p.bits, &integer, coll_datatype_size(datatype));
    }
    return p;
}
