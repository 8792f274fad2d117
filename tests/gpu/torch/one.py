"""A world of one rank: plainly, or under DistributedDataParallel (--ddp)."""

import torch
import torch.distributed as dist

from common import Job, clip, parser
from model import Decoder, micro_steps, optimizer, shape_of


def main():
    p = parser(__doc__)
    p.add_argument("--ddp", action="store_true")
    options = p.parse_args()
    job, shape = Job(options), shape_of(options)
    with job.device:
        model = Decoder(shape)
    if options.ddp:
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    adam = optimizer(model.parameters())

    def step(i):
        loss = micro_steps(job, model, job.tokens(i, shape.batch, shape.length, shape.vocabulary))
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        mean = loss.clone()
        dist.all_reduce(mean)
        return mean / job.world, norm

    job.loop(step)
    job.end()


main()
