"""Activation checkpointing under DistributedDataParallel.

What is computed again refers to itself, so Python's collector frees it, and the peak of memory would depend on when that runs
(measured: 127,980,544 to 139,524,096 bytes from one plain run to the next). It runs once an iteration here, as large jobs have it."""

import contextlib
import gc

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

    gc.disable()
    gc.freeze() # what was made so far stays: collecting looks at an iteration's objects only

    def step(i):
        gc.collect()
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary)
        loss = micro_steps(job, model, tokens, lambda last: contextlib.nullcontext() if last else model.no_sync())
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
