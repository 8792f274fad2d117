"""Expert parallelism over all ranks: all_to_all_single with splits that the data decides."""

import torch
import torch.distributed as dist
from torch import nn

from common import Job, parser, reduce_gradients
from experts import Experts
from model import Attention, RMSNorm, initialise, optimizer, pieces, shape_of, token_loss


class Block(nn.Module):
    def __init__(self, shape, *experts):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(shape.width), RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.experts = Experts(shape.width, shape.ffn // 2, *experts)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.experts(self.norm2(x))


class Model(nn.Module):
    def __init__(self, shape, *experts):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape, *experts) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    p = parser(__doc__)
    p.add_argument("--experts", type=int, default=0, help="on all ranks; default two a rank")
    p.add_argument("--top", type=int, default=2)
    p.add_argument("--skew", type=float, default=0.0, help="how much the router prefers the first experts")
    options = p.parse_args()
    job = Job(options)
    shape = shape_of(options, activation_share=1.05)
    with job.device:
        model = Model(shape, options.experts or 2 * job.world, options.top, dist.group.WORLD, options.skew)
    # The same dense layers on all ranks, experts of their own.
    initialise(model)
    local = {id(p) for b in model.blocks for p in (b.experts.gate, b.experts.up, b.experts.down)}
    own = torch.Generator(device=job.device).manual_seed(options.seed + 1 + job.rank)
    for p in model.parameters():
        if id(p) in local:
            nn.init.normal_(p, std=0.02, generator=own)
    dense = [p for p in model.parameters() if id(p) not in local]
    adam = optimizer(model.parameters())

    def step(i):
        tokens, total = job.tokens(i, shape.batch, shape.length, shape.vocabulary), 0
        for part in pieces(tokens, options.accumulate):
            with job.autocast():
                loss = token_loss(model(part[:, :-1]), part) / options.accumulate
            loss.backward()
            total = total + loss.detach()
        # Experts have seen the tokens of all ranks: their gradient is a sum already.
        reduce_gradients(dense, dist.group.WORLD, job.world)
        norm = torch.nn.utils.clip_grad_norm_(dense, options.clip or float("inf"), foreach=True)
        adam.step()
        adam.zero_grad(set_to_none=True)
        return total, norm

    job.loop(step)
    job.end()


main()
