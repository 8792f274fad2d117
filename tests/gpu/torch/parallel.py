"""Transformer blocks cut over a tensor-parallel group, with a cut feed-forward layer or with experts."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from model import Attention, RMSNorm


class Enter(torch.autograd.Function):
    """Into a cut layer: the gradient is the sum over the tensor group."""

    @staticmethod
    def forward(context, x, group):
        context.group = group
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


class Leave(torch.autograd.Function):
    """Out of a cut layer: the sum over the tensor group."""

    @staticmethod
    def forward(context, x, group):
        x = x.contiguous()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class CutSwiGLU(nn.Module):
    def __init__(self, width, ffn):
        super().__init__()
        self.gate = nn.Linear(width, ffn, bias=False)
        self.up = nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """tensor: the group (None: of one). experts: whole on every tensor rank, in place of the cut feed-forward layer."""

    def __init__(self, shape, tensor, experts=None):
        super().__init__()
        self.tensor = tensor
        size = dist.get_world_size(tensor) if tensor is not None else 1
        self.norm1, self.norm2 = RMSNorm(shape.width), RMSNorm(shape.width)
        self.attention = Attention(shape, shape.heads // size, shape.kv_heads // size)
        self.experts = experts
        self.mlp = None if experts is not None else CutSwiGLU(shape.width, shape.ffn // size)

    def across(self, layer, x):
        """A cut layer, between the sums that make it whole."""
        return layer(x) if self.tensor is None else Leave.apply(layer(Enter.apply(x, self.tensor)), self.tensor)

    def forward(self, x):
        x = x + self.across(self.attention, self.norm1(x))
        h = self.norm2(x)
        return x + (self.experts(h) if self.mlp is None else self.across(self.mlp, h))

    def cut(self):
        layers = [self.attention.q, self.attention.k, self.attention.v, self.attention.o]
        if self.mlp is not None:
            layers += [self.mlp.gate, self.mlp.up, self.mlp.down]
        return [layer.weight for layer in layers]

    def local(self):
        return [] if self.experts is None else [self.experts.gate, self.experts.up, self.experts.down]


def redraw(parameters, seed, device):
    own = torch.Generator(device=device).manual_seed(seed)
    for p in parameters:
        nn.init.normal_(p, std=0.02, generator=own)
