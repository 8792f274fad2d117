"""Activation checkpointing under DistributedDataParallel."""

import contextlib

import torch

from common import Job, clip, parser
from model import Decoder, micro_steps, optimizer, shape_of


def main():
    options = parser(__doc__).parse_args()
    job, shape = Job(options), shape_of(options, activation_share=0.3)
    with job.device:
        model = Decoder(shape, checkpoint=True)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=options.accumulate == 1)
    adam = optimizer(model.parameters())

    def step(i):
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary)
        loss = micro_steps(job, model, tokens, lambda last: contextlib.nullcontext() if last else model.no_sync())
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
