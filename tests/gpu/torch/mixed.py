"""Tensor, expert, data and pipeline parallelism together, in a world of any size; with --ep shaped like Qwen3-MoE, else dense.

World = tp x ep x dp x pp, tp innermost and pp outermost; dp is what the others leave of the world. Attention (and a dense
feed-forward layer) is cut over tp, the experts of a layer over ep; tokens differ between the ep x dp ranks of a stage. 1F1B
with one stage a rank. A rank knows its own groups only, so start-up does not grow with the world.
"""

import torch
import torch.distributed as dist
from torch import nn

from common import Job, parser, reduce_gradients
from experts import Experts
from model import RMSNorm, initialise, optimizer, shape_of, token_loss
from parallel import Block, redraw


class Grid:
    """Where a rank stands, and its groups; a group of one is None."""

    def __init__(self, job, tp, ep, pp):
        if job.world % (tp * ep * pp):
            raise SystemExit(f"a world of {job.world} is not a multiple of --tp={tp} x --ep={ep} x --pp={pp}")
        self.job, self.sizes = job, {"tp": tp, "ep": ep, "dp": job.world // (tp * ep * pp), "pp": pp}
        self.at, rest = {}, job.rank
        for name, size in self.sizes.items():
            self.at[name], rest = rest % size, rest // size
        self.tensor, self.expert = self.group("tp"), self.group("ep")
        self.replica, self.data, self.pipe = self.group("dp"), self.group("ep", "dp"), self.group("pp")
        self.stage, self.stages, self.lane = self.at["pp"], pp, self.at["ep"] + ep * self.at["dp"]

    def rank_of(self, at):
        rank, stride = 0, 1
        for name, size in self.sizes.items():
            rank, stride = rank + at[name] * stride, stride * size
        return rank

    def members(self, at, names):
        """Ranks that differ from `at` in the named dimensions only, in order."""
        found = [dict(at)]
        for name in names:
            found = [{**f, name: i} for f in found for i in range(self.sizes[name])]
        return sorted(self.rank_of(f) for f in found)

    def group(self, *names):
        mine = self.members(self.at, names)
        if len(mine) == 1:
            return None
        # Made by its members alone, from an id that the first of them publishes.
        return dist.new_group(mine, use_local_synchronization=True)

    def neighbour(self, step):
        return self.rank_of({**self.at, "pp": self.stage + step})


class Stage(nn.Module):
    """Some of the blocks; the first stage has the embedding, the last one the head."""

    def __init__(self, grid, shape, options):
        super().__init__()
        self.autocast = grid.job.autocast
        mine = range(grid.stage * shape.layers // grid.stages, (grid.stage + 1) * shape.layers // grid.stages)
        count = options.experts or 2 * grid.sizes["ep"]

        def experts():
            return Experts(shape.width, shape.ffn // 2, count, options.top, grid.expert, options.skew) if options.ep > 1 else None

        self.embedding = nn.Embedding(shape.vocabulary, shape.width) if grid.stage == 0 else None
        self.blocks = nn.ModuleList(Block(shape, grid.tensor, experts()) for _ in mine)
        last = grid.stage == grid.stages - 1
        self.norm = RMSNorm(shape.width) if last else None
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False) if last else None
        initialise(self)
        cut = [p for b in self.blocks for p in b.cut()]
        local = [p for b in self.blocks for p in b.local()]
        seed = options.seed + 10_000 * (1 + grid.stage)
        redraw(cut, seed + grid.at["tp"], grid.job.device)
        redraw(local, seed + 5_000 + grid.at["ep"], grid.job.device)
        special = {id(p) for p in cut + local}
        self.parts = {"whole": [p for p in self.parameters() if id(p) not in special], "cut": cut, "local": local}

    def forward(self, x):
        with self.autocast():
            x = self.embedding(x) if self.embedding is not None else x
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)) if self.head is not None else x


class Pipe:
    """Activations to the next stage and gradients back, a send and a receive at once where both are due."""

    def __init__(self, grid, shape, micro):
        self.grid, self.dtype = grid, grid.job.compute
        self.first, self.last = grid.stage == 0, grid.stage == grid.stages - 1
        self.wire = (shape.batch // micro, shape.length, shape.width)

    def exchange(self, send=None, to=0, receive=0):
        """send goes to the stage `to` steps away; something comes from the one `receive` steps away (0: nothing)."""
        operations, got = [], None
        if send is not None and to:
            operations.append(dist.P2POp(dist.isend, send.detach().to(self.dtype).contiguous(), self.grid.neighbour(to), self.grid.pipe))
        if receive:
            got = torch.empty(self.wire, device=self.grid.job.device, dtype=self.dtype)
            operations.append(dist.P2POp(dist.irecv, got, self.grid.neighbour(receive), self.grid.pipe))
        for work in dist.batch_isend_irecv(operations) if operations else ():
            work.wait()
        return got

    def forward_of(self, stage, x):
        if not self.first:
            x.requires_grad_()
        return stage(x)

    def run(self, stage, parts):
        """1F1B over the micro-batches; returns the sum of their losses at the last stage."""
        count, job = len(parts), self.grid.job
        before, after = (0 if self.first else -1), (0 if self.last else 1)
        warm = min(count, self.grid.stages - self.grid.stage - 1)
        pending, total, done = [], torch.zeros((), device=job.device), 0

        def forward(x):
            nonlocal total, done
            x = parts[done][:, :-1] if self.first else x
            y = self.forward_of(stage, x)
            if self.last:
                y = token_loss(y, parts[done]) / count
                total = total + y.detach()
            pending.append((x, y))
            done += 1
            return y

        def backward(gradient):
            x, y = pending.pop(0)
            y.backward(None if self.last else gradient.to(y.dtype))
            return None if self.first else x.grad

        for _ in range(warm):
            self.exchange(send=forward(self.exchange(receive=before)), to=after)
        x = self.exchange(receive=before) if count > warm else None
        for i in range(count - warm):
            gradient = self.exchange(send=forward(x), to=after, receive=after)
            back = backward(gradient)
            x = self.exchange(send=back, to=before, receive=before if i < count - warm - 1 else 0)
        for _ in range(warm):
            self.exchange(send=backward(self.exchange(receive=after)), to=before)
        return total


def norm_of_all(job, grid, parts):
    """A sum over all ranks in which every parameter counts once."""
    data, tp = grid.sizes["ep"] * grid.sizes["dp"], grid.sizes["tp"]
    share = {"whole": tp * data, "cut": data, "local": tp * grid.sizes["dp"]}
    square = sum((p.grad.square().sum() / share[name] for name, of in parts.items() for p in of), torch.zeros((), device=job.device))
    dist.all_reduce(square)
    return square.sqrt()


def main():
    p = parser(__doc__)
    p.add_argument("--tp", type=int, default=1)
    p.add_argument("--ep", type=int, default=1)
    p.add_argument("--pp", type=int, default=1)
    p.add_argument("--micro-batches", type=int, default=4)
    p.add_argument("--experts", type=int, default=0, help="of a layer; default two a rank of the expert group")
    p.add_argument("--top", type=int, default=2)
    p.add_argument("--skew", type=float, default=0.0, help="how much the router prefers the first experts")
    options = p.parse_args()
    # Not bound to a device: groups would be split off the communicator of the whole world, by all of its ranks.
    job = Job(options, bind=False)
    grid = Grid(job, options.tp, options.ep, options.pp)
    shape = shape_of(options, state_share=1 / options.pp, activation_share=1 / options.pp)
    micro = min(options.micro_batches, shape.batch)
    with job.device:
        stage = Stage(grid, shape, options)
    adam, pipe = optimizer(stage.parameters()), Pipe(grid, shape, micro)
    lanes = grid.sizes["ep"] * grid.sizes["dp"]

    def step(i):
        # A tensor group and all stages work on one batch.
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary, lane=grid.lane)
        total = pipe.run(stage, tokens.chunk(micro))
        if lanes > 1:
            reduce_gradients(stage.parts["whole"] + stage.parts["cut"], grid.data, lanes)
        if stage.parts["local"] and grid.replica is not None:
            # Experts have seen the tokens of their whole expert group.
            reduce_gradients(stage.parts["local"], grid.replica, lanes)
        elif lanes > 1:
            for q in stage.parts["local"]:
                q.grad /= lanes
        norm = norm_of_all(job, grid, stage.parts)
        if options.clip > 0:
            torch._foreach_mul_([q.grad for q in stage.parameters()], (options.clip / (norm + 1e-6)).clamp(max=1.0))
        adam.step()
        adam.zero_grad(set_to_none=True)
        # Only the last stage has a loss; the others show the length of the gradient.
        return total if pipe.last else norm, norm

    job.loop(step)
    job.end()


main()
