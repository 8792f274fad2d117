"""Experts spread over the ranks of a group: tokens travel to them and back with all_to_all_single."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Exchange(torch.autograd.Function):
    """Rows to other ranks by counts; backward sends the gradients back the same way."""

    @staticmethod
    def forward(context, rows, sent, received, group):
        context.sent, context.received, context.group = sent, received, group
        out = rows.new_empty((sum(received), rows.shape[1]))
        dist.all_to_all_single(out, rows.contiguous(), received, sent, group=group)
        return out

    @staticmethod
    def backward(context, gradient):
        back = gradient.new_empty((sum(context.sent), gradient.shape[1]))
        dist.all_to_all_single(back, gradient.contiguous(), context.sent, context.received, group=context.group)
        return back, None, None, None


class Experts(nn.Module):
    """count experts (SwiGLU) on all ranks of the group together; every token goes to its top choices.

    The numbers of rows that travel follow from the data: they go first (all_to_all_single of counts), and the host
    waits for them. skew: how much the router prefers the first expert to the last.
    """

    def __init__(self, width, ffn, count, top, group, skew=0.0):
        super().__init__()
        self.skew = skew
        self.group, self.size, self.top = group, dist.get_world_size(group), top
        if count % self.size:
            raise SystemExit(f"{count} experts cannot be spread over {self.size} ranks")
        self.count, self.local = count, count // self.size
        self.router = nn.Linear(width, count, bias=False)
        self.gate = nn.Parameter(torch.empty(self.local, width, ffn))
        self.up = nn.Parameter(torch.empty(self.local, width, ffn))
        self.down = nn.Parameter(torch.empty(self.local, ffn, width))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        scores = self.router(rows).float()
        if self.skew:
            scores = scores + self.skew * (1 - torch.arange(self.count, device=x.device) / self.count)
        weights, choice = scores.softmax(-1).topk(self.top, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(rows.dtype)
        order = choice.flatten().argsort(stable=True)
        counts = torch.bincount(choice.flatten(), minlength=self.count)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts, group=self.group)
        both = torch.stack([counts, theirs]).view(2, self.size, self.local).tolist()
        sent, received = [sum(c) for c in both[0]], [sum(c) for c in both[1]]
        arrived = Exchange.apply(rows[order // self.top], sent, received, self.group)
        done = Exchange.apply(self.compute(arrived, both[1]), received, sent, self.group)
        # Back to the tokens' order; index_select's backward is a sum in a fixed order, as each row occurs once.
        return (done[order.argsort()].view(-1, self.top, x.shape[-1]) * weights.unsqueeze(-1)).sum(1).view_as(x)

    def compute(self, rows, counts):
        """rows: by sending rank, then by expert; counts[rank][expert]."""
        parts = rows.split([c for of_rank in counts for c in of_rank])
        mine = [torch.cat(parts[e::self.local]) for e in range(self.local)]
        out = [(F.silu(r @ self.gate[e].to(r.dtype)) * (r @ self.up[e].to(r.dtype))) @ self.down[e].to(r.dtype)
               for e, r in enumerate(mine)]
        pieces = [o.split([of_rank[e] for of_rank in counts]) for e, o in enumerate(out)]
        return torch.cat([pieces[e][r] for r in range(self.size) for e in range(self.local)])
