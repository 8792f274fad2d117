/* types.h - datatypes, reductions and operations by number: sizes and the names that messages use. */
#ifndef SOFTGPU_NCCL_TYPES_H
#define SOFTGPU_NCCL_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#include "softgpu/nccl/wire.h"

size_t sgn_datatype_size(int datatype); /* 0: there is no such type */
bool sgn_datatype_is_float(int datatype);
const char *sgn_kind_name(uint32_t kind); /* "AllReduce" */
bool sgn_kind_reduces(uint32_t kind);
bool sgn_kind_has_root(uint32_t kind);
/* "ncclAllReduce(count 12, ncclFloat32, ncclSum)"; returns text. */
const char *sgn_task_describe(const struct sgn_task *task, char *text, size_t size);
/* The bytes that rank of ranks brings to and takes from a task of which kind, datatype, count and peer are
 * set. */
void sgn_task_set_bytes(struct sgn_task *task, int rank, int ranks);

#endif
