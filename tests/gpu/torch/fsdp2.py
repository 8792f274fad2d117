"""FSDP2 (fully_shard) on a two-dimensional mesh: parameters sharded over one dimension, replicated over the other."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from common import Job, clip, parser
from model import Decoder, micro_steps, optimizer, shape_of


def main():
    p = parser(__doc__)
    p.add_argument("--replicas", type=int, default=2)
    options = p.parse_args()
    job = Job(options)
    replicas = min(options.replicas, job.world)
    shards = job.world // replicas
    shape = shape_of(options, state_share=1 / shards)
    mesh = init_device_mesh(job.device.type, (replicas, shards), mesh_dim_names=("replica", "shard"))
    with job.device:
        model = Decoder(shape)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    adam = optimizer(model.parameters())

    def sync(last):
        model.set_requires_gradient_sync(last)
        return torch.enable_grad()

    def step(i):
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary)
        loss = micro_steps(job, model, tokens, sync)
        norm = clip(job, model.parameters())
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
