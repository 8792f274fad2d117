"""torch.compile around a model under DistributedDataParallel."""

import contextlib

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
    fast = torch.compile(model)

    def step(i):
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary)
        loss = micro_steps(job, fast, tokens, lambda last: contextlib.nullcontext() if last else model.no_sync())
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
