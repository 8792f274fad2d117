"""A transformer shaped like Qwen3-MoE, with tensor, expert and data parallelism.

World = tp x dp, tp inner; the experts of a layer are spread over ep of the dp ranks that have the same place in their
tensor group. Attention is cut over tp; experts, router, norms, embedding and head are whole on every tensor rank.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from common import Job, parser, reduce_gradients
from experts import Experts
from model import RMSNorm, initialise, optimizer, pieces, shape_of, token_loss
from parallel import Block, redraw


class Model(nn.Module):
    def __init__(self, shape, experts, top, tensor, expert):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape, tensor, Experts(shape.width, shape.ffn // 2, experts, top, expert))
                                    for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    p = parser(__doc__)
    p.add_argument("--tp", type=int, default=2)
    p.add_argument("--ep", type=int, default=2)
    p.add_argument("--experts", type=int, default=0, help="of a layer; default two a rank of the expert group")
    p.add_argument("--top", type=int, default=2)
    options = p.parse_args()
    job = Job(options)
    if job.world % (options.tp * options.ep):
        raise SystemExit(f"a world of {job.world} is not a multiple of --tp={options.tp} x --ep={options.ep}")
    replicas = job.world // options.tp // options.ep
    mesh = init_device_mesh(job.device.type, (replicas, options.ep, options.tp), mesh_dim_names=("replica", "expert", "tensor"))
    groups = {name: mesh[name].get_group() for name in ("replica", "expert", "tensor")}
    data = mesh["replica", "expert"]._flatten("data").get_group()
    lane, place = job.rank // options.tp, job.rank % options.tp
    shape = shape_of(options)
    with job.device:
        model = Model(shape, options.experts or 2 * options.ep, options.top, groups["tensor"], groups["expert"])
    initialise(model)
    cut = [p for b in model.blocks for p in b.cut()]
    local = [p for b in model.blocks for p in b.local()]
    redraw(cut, options.seed + 1 + place, job.device)
    redraw(local, options.seed + 1_000 + lane % options.ep, job.device)
    special = {id(p) for p in cut + local}
    whole = [p for p in model.parameters() if id(p) not in special]
    adam = optimizer(model.parameters())

    def norm_of_all():
        """A sum over all ranks in which every parameter counts once."""
        square = sum(p.grad.square().sum() for p in whole) / job.world
        square = square + sum(p.grad.square().sum() for p in cut) / (job.world // options.tp)
        square = square + sum(p.grad.square().sum() for p in local) / (job.world // options.ep)
        dist.all_reduce(square)
        return square.sqrt()

    def step(i):
        # A tensor group works on one batch.
        tokens, total = job.tokens(i, shape.batch, shape.length, shape.vocabulary, lane=lane), 0
        for part in pieces(tokens, options.accumulate):
            with job.autocast():
                loss = token_loss(model(part[:, :-1]), part) / options.accumulate
            loss.backward()
            total = total + loss.detach()
        reduce_gradients(whole + cut, data, options.ep * replicas)
        reduce_gradients(local, groups["replica"], options.ep * replicas)
        norm = norm_of_all()
        if options.clip > 0:
            torch._foreach_mul_([p.grad for p in model.parameters()], (options.clip / (norm + 1e-6)).clamp(max=1.0))
        adam.step()
        adam.zero_grad(set_to_none=True)
        return total, norm

    job.loop(step)
    job.end()


main()
