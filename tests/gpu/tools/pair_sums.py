"""all_reduce of PyTorch as it is, but for floating-point sums over more than two ranks: these gather what the ranks have and add it
in the order of Prism's capture (lib/coll/pairs.h). The same for the gradients of DistributedDataParallel. A program on real NCCL with
this must give capture's numbers in every digit.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

real = dist.all_reduce


def in_pairs(tensor, group):
    parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, tensor.contiguous(), group=group)
    while len(parts) > 1:
        parts = [sum(parts[i + 1:i + 2], parts[i]) for i in range(0, len(parts), 2)]
    tensor.copy_(parts[0])


def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
    if op != dist.ReduceOp.SUM or dist.get_world_size(group) <= 2 or not tensor.is_floating_point() or async_op:
        return real(tensor, op, group, async_op)
    in_pairs(tensor, group)
    return None


def bucket_in_pairs(_state, bucket):
    """DistributedDataParallel divides each gradient by the ranks, and then adds."""
    gradients = bucket.buffer()
    gradients.div_(dist.get_world_size())
    in_pairs(gradients, None)
    done = torch.futures.Future()
    done.set_result(gradients)
    return done


def wrapped(self, *arguments, **named):
    made(self, *arguments, **named)
    self.register_comm_hook(None, bucket_in_pairs)


dist.all_reduce = all_reduce
made = DistributedDataParallel.__init__
DistributedDataParallel.__init__ = wrapped
