"""Activation checkpointing under DistributedDataParallel.

With a static graph the buckets are made anew after the first iterations, and the old ones live until NCCL's watchdog, which looks every
100 ms, drops their operations: the peak would depend on that (127,980,544 to 139,524,096 bytes from one plain run to the next). So
those iterations wait for it."""

import contextlib
import time

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
        if 0 < i < 3:
            time.sleep(0.25)
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary)
        loss = micro_steps(job, model, tokens, lambda last: contextlib.nullcontext() if last else model.no_sync())
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
