"""A decoder-only transformer as today's language models are: RMSNorm, grouped-query attention, SwiGLU."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from common import GIB


@dataclass
class Shape:
    width: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    length: int  # of a sequence
    batch: int  # sequences a rank and iteration

    @property
    def parameters(self):
        kv = self.width * self.kv_heads // self.heads
        return self.layers * self.width * (2 * self.width + 2 * kv + 3 * self.ffn) + 2 * self.vocabulary * self.width

    @property
    def token_bytes(self):
        """What backward keeps of a token, in float32: ten vectors of the width and four of the feed-forward layer in
        every block (counted with saved_tensors_hooks); logits, their softmax and gradient."""
        return 4 * (self.layers * (10 * self.width + 4 * self.ffn) + 3 * self.vocabulary)


def shape_of(options, state_share=1.0, activation_share=1.0):
    """The options' size. The shares say what part of parameters and of activations one rank holds; with size full the
    batch is what fills --gib beside parameters, gradients and both moments of AdamW (16 bytes a parameter)."""
    if options.size == "small":
        made = Shape(256, 4, 8, 4, 512, 1024, 64, 8)
    elif options.size == "medium":
        made = Shape(2048, 8, 16, 8, 6144, 8192, 1024, 8)
    elif options.gib < 8:
        made = Shape(1024, 4, 16, 8, 3072, 8192, 512, 0)
    else:
        made = Shape(1024, 8, 16, 8, 3072, 8192, 512, 0)
    made.layers = options.layers or made.layers
    if options.size == "full":
        left = options.gib * GIB - 16 * made.parameters * state_share
        fits = int(left / (made.length * made.token_bytes * activation_share))
        # A multiple of what micro-steps and micro-batches cut it into.
        made.batch = fits // 32 * 32 if fits >= 64 else max(4, fits // 4 * 4)
    made.batch = options.batch or made.batch
    return made


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """local_heads, local_kv: heads on this rank; fewer than the shape's under tensor parallelism."""

    def __init__(self, shape, local_heads=None, local_kv=None):
        super().__init__()
        self.size = shape.width // shape.heads
        self.heads, self.kv = local_heads or shape.heads, local_kv or shape.kv_heads
        self.q = nn.Linear(shape.width, self.heads * self.size, bias=False)
        self.k = nn.Linear(shape.width, self.kv * self.size, bias=False)
        self.v = nn.Linear(shape.width, self.kv * self.size, bias=False)
        self.o = nn.Linear(self.heads * self.size, shape.width, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        # The number of heads follows from the projection, which DTensor may have cut.
        q = self.q(x).view(b, t, -1, self.size).transpose(1, 2)
        k = self.k(x).view(b, t, -1, self.size).transpose(1, 2)
        v = self.v(x).view(b, t, -1, self.size).transpose(1, 2)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class SwiGLU(nn.Module):
    def __init__(self, width, ffn):
        super().__init__()
        self.gate = nn.Linear(width, ffn, bias=False)
        self.up = nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(shape.width), RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp = SwiGLU(shape.width, shape.ffn)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """checkpoint: keep only the blocks' inputs, compute the rest again in backward."""

    def __init__(self, shape, checkpoint=False):
        super().__init__()
        self.checkpoint = checkpoint
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        initialise(self)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return self.head(self.norm(x))


def initialise(module):
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)


def token_loss(logits, tokens):
    """tokens: one more than the logits have positions."""
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def optimizer(parameters):
    # One kernel over all parameters, and the same sums in every run.
    return torch.optim.AdamW(parameters, lr=3e-4, foreach=True)


def pieces(tokens, count):
    """The batch in so many micro-steps of equal size."""
    if tokens.shape[0] % count:
        raise SystemExit(f"a batch of {tokens.shape[0]} is not a multiple of --accumulate={count}")
    return tokens.chunk(count)


def micro_steps(job, model, tokens, sync=None):
    """Forward and backward of the batch in --accumulate steps; sync(last) is a context around each. Returns the loss."""
    count, total = job.options.accumulate, None
    for n, part in enumerate(pieces(tokens, count)):
        with sync(n == count - 1) if sync else torch.enable_grad():
            with job.autocast():
                loss = token_loss(model(part[:, :-1]), part) / count
            loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    return total
