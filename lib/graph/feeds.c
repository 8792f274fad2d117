#include "graph/feeds.h"

const char *graph_op_name(uint8_t op)
{
    static const char *const names[GRAPH_OP_END] = {
        "no operation", "all-reduce", "reduce",  "broadcast", "all-gather", "reduce-scatter",
        "all-to-all",   "gather",     "scatter", "send",      "receive",
    };
    return names[op < GRAPH_OP_END ? op : 0];
}

uint32_t graph_datatype_size(uint8_t datatype)
{
    /* int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16 float8e4m3 float8e5m2 */
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return datatype < sizeof sizes ? sizes[datatype] : 0;
}
