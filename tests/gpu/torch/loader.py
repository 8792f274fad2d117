"""A DataLoader with worker processes and pinned memory, under DistributedDataParallel."""

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from common import Job, clip, parser
from model import Decoder, micro_steps, optimizer, shape_of


class Sentences(Dataset):
    """Token sequences made from their number."""

    def __init__(self, count, shape, seed):
        self.count, self.shape, self.seed = count, shape, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        return torch.randint(self.shape.vocabulary, (self.shape.length + 1,), generator=made)


def main():
    p = parser(__doc__)
    p.add_argument("--workers", type=int, default=2)
    options = p.parse_args()
    job, shape = Job(options), shape_of(options)
    with job.device:
        model = Decoder(shape)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    adam = optimizer(model.parameters())
    data = Sentences(shape.batch * job.world * options.iterations, shape, options.seed)
    sampler = DistributedSampler(data, job.world, job.rank, seed=options.seed)
    batches = iter(DataLoader(data, shape.batch, sampler=sampler, num_workers=options.workers,
                              pin_memory=options.device == "cuda"))

    def step(i):
        tokens = next(batches).to(job.device, non_blocking=True)
        loss = micro_steps(job, model, tokens)
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
