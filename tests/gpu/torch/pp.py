"""Pipeline parallelism with torch.distributed.pipelining: 1F1B, one stage a rank."""

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from common import Job, clip, parser
from model import Block, RMSNorm, initialise, optimizer, pieces, shape_of, token_loss


class Stage(nn.Module):
    """Some of the blocks; the first stage has the embedding, the last one the head."""

    def __init__(self, job, shape):
        super().__init__()
        stage, stages, self.autocast = job.rank, job.world, job.autocast
        mine = range(stage * shape.layers // stages, (stage + 1) * shape.layers // stages)
        self.embedding = nn.Embedding(shape.vocabulary, shape.width) if stage == 0 else None
        self.blocks = nn.ModuleList(Block(shape) for _ in mine)
        self.norm = RMSNorm(shape.width) if stage == stages - 1 else None
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False) if stage == stages - 1 else None
        initialise(self)

    def forward(self, x):
        with self.autocast():
            if self.embedding is not None:
                x = self.embedding(x)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)) if self.head is not None else x


def main():
    p = parser(__doc__)
    p.add_argument("--micro-batches", type=int, default=8)
    options = p.parse_args()
    job = Job(options)
    if options.size == "small" and not options.layers:
        options.layers = max(4, job.world)
    # 1F1B keeps as many micro-batches as there are stages behind a stage: all of them at the first.
    shape = shape_of(options, state_share=1 / job.world, activation_share=1 / job.world)
    first, last = job.rank == 0, job.rank == job.world - 1
    torch.manual_seed(options.seed + job.rank)
    with job.device:
        module = Stage(job, shape)
    stage = PipelineStage(module, job.rank, job.world, job.device)
    micro = min(options.micro_batches, shape.batch // options.accumulate)
    # The schedule's own scaling would divide gradients of earlier micro-steps again.
    schedule = Schedule1F1B(stage, micro, loss_fn=lambda y, t: token_loss(y, t) / micro / options.accumulate, scale_grads=False)
    adam = optimizer(module.parameters())

    def step(i):
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary, lane=0)
        total = torch.zeros((), device=job.device)
        for part in pieces(tokens, options.accumulate):
            losses = []
            if first:
                schedule.step(part[:, :-1].contiguous(), target=part if last else None, losses=losses if last else None)
            else:
                schedule.step(target=part if last else None, losses=losses if last else None)
            if last:
                total = total + torch.stack(losses).sum().detach()
        norm = clip(job, module.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        # Only the last stage has a loss; the others show the length of their gradient.
        return total if last else norm, norm

    job.loop(step)
    job.end()


main()
