/* differ.h - how far two buffers of one datatype are apart. */
#ifndef PRISM_COLL_DIFFER_H
#define PRISM_COLL_DIFFER_H

#include <stdint.h>

struct coll_difference {
    double apart;     /* sum of |a - b| */
    double magnitude; /* sum of (|a| + |b|) / 2 */
};

/* Adds n elements; pairs with a value that is not finite are left out. Nothing for unknown datatypes. */
void coll_differ(const void *a, const void *b, uint64_t n, int datatype, struct coll_difference *sum);

#endif
