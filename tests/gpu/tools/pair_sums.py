"""all_reduce of PyTorch as it is, but for floating-point sums over more than two ranks: these gather what the ranks have and add it
in the order of Prism's capture (lib/coll/pairs.h). A program on real NCCL with this must give capture's numbers in every digit.
"""

import torch
import torch.distributed as dist

real = dist.all_reduce


def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
    ranks = dist.get_world_size(group)
    if op != dist.ReduceOp.SUM or ranks <= 2 or not tensor.is_floating_point() or async_op:
        return real(tensor, op, group, async_op)
    parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(ranks)]
    dist.all_gather(parts, tensor.contiguous(), group=group)
    while len(parts) > 1:
        parts = [sum(parts[i + 1:i + 2], parts[i]) for i in range(0, len(parts), 2)]
    tensor.copy_(parts[0])
    return None


dist.all_reduce = all_reduce
