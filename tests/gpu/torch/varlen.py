"""Sequence lengths that differ from step to step and from rank to rank, under DistributedDataParallel."""

import random

import torch

from common import Job, clip, parser
from model import Decoder, micro_steps, optimizer, shape_of


def main():
    options = parser(__doc__).parse_args()
    job, shape = Job(options), shape_of(options)
    with job.device:
        model = Decoder(shape)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    adam = optimizer(model.parameters())

    def step(i):
        # From a quarter to all of the length; Python's own generator, so that the host knows it without a copy.
        length = random.Random(options.seed + i * job.world + job.rank).randint(shape.length // 4, shape.length)
        loss = micro_steps(job, model, job.tokens(i, shape.batch, length, shape.vocabulary))
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
