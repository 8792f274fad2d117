"""Tensor parallelism with DTensor: attention and feed-forward layers cut over all ranks."""

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from common import Job, clip, parser
from model import Decoder, micro_steps, optimizer, shape_of


def main():
    options = parser(__doc__).parse_args()
    job = Job(options)
    shape = shape_of(options, state_share=1 / job.world, activation_share=0.45 + 0.55 / job.world)
    mesh = init_device_mesh(job.device.type, (job.world,))
    with job.device:
        model = Decoder(shape)
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(), "attention.v": ColwiseParallel(),
            "attention.o": RowwiseParallel(),
            "mlp.gate": ColwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()})
    cut = [p for p in model.parameters() if hasattr(p, "full_tensor")]
    whole = [p for p in model.parameters() if not hasattr(p, "full_tensor")]
    adam_cut, adam_whole = optimizer(cut), optimizer(whole)

    def step(i):
        # All ranks work on the same batch.
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary, lane=0)
        loss = micro_steps(job, model, tokens)
        norm = clip(job, cut)
        clip(job, whole)
        for adam in (adam_cut, adam_whole):
            adam.step()
            adam.zero_grad(set_to_none=True)
        return loss, norm

    job.loop(step)
    job.end()


main()
