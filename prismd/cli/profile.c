/* profile.c - see profile.h. */
#include "profile.h"

#include <stdlib.h>

#include "coll/duration.h"

/* The operation as lib/coll counts it; *bytes from the timer's (larger buffer) to one of the NCCL call. */
static int convert(const struct measure_sample *sample, struct coll_point *point)
{
    static const int ops[MEASURE_OPS] = {
        [MEASURE_ALL_REDUCE] = PRISM_OP_ALLREDUCE, [MEASURE_ALL_GATHER] = PRISM_OP_ALLGATHER,
        [MEASURE_REDUCE_SCATTER] = PRISM_OP_REDUCESCATTER, [MEASURE_BROADCAST] = PRISM_OP_BROADCAST,
        [MEASURE_ALL_TO_ALL] = PRISM_OP_ALLTOALL, [MEASURE_SEND_RECV] = PRISM_OP_SEND,
    };
    bool parts = sample->op == MEASURE_ALL_GATHER || sample->op == MEASURE_REDUCE_SCATTER ||
                 sample->op == MEASURE_ALL_TO_ALL;
    *point = (struct coll_point){ .op = ops[sample->op], .size = sample->size, .nodes = sample->nodes,
                                  .bytes = parts ? sample->bytes / sample->size : sample->bytes,
                                  .seconds = sample->seconds };
    return sample->seconds > 0;
}

static void set_eager(struct coll_link_profile *link, double bytes)
{
    if (bytes >= 0)
        link->eager_bytes = (uint64_t)bytes;
}

int profile_write(const struct measure_result *result, const char *path, struct prism_error *err)
{
    struct coll_point *points = calloc((size_t)result->n + 1, sizeof(*points));
    struct coll_network network = { 0 };
    size_t n = 0;
    if (!points)
        abort();
    for (int i = 0; i < result->n; i++)
        n += (size_t)convert(&result->samples[i], &points[n]);
    int failed = coll_network_fit(&network, points, n, err) != 0;
    free(points);
    if (failed)
        return -1;
    set_eager(&network.link[COLL_LINK_INTRA], result->eager_bytes);
    set_eager(&network.link[COLL_LINK_INTER], result->eager_bytes_nodes);
    failed = coll_network_save(&network, path, err) != 0;
    coll_network_clear(&network);
    return failed ? -1 : 0;
}
