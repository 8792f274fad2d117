"""Pipeline stages that never compute at the same time: one micro-batch, and a receive is enqueued only once the sender
has finished computing (it says so through the job's store), so that no waiting NCCL kernel takes the device's time.

Each rank also prints where its iterations' milliseconds are: medians of turn_host_*, between its calls on the host, and of
turn_device_*, between its operations on the stream."""

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from common import Job, parser
from model import Block, RMSNorm, initialise, optimizer, shape_of, token_loss


# Stages pass the mean of so many neighbouring tokens: a message takes little time beside a stage's compute.
POOL = 16


class Stage(nn.Module):
    def __init__(self, shape, rank, world):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width) if rank == 0 else None
        self.blocks = nn.ModuleList(Block(shape) for _ in range(max(1, shape.layers // world)))
        last = rank == world - 1
        self.norm = RMSNorm(shape.width) if last else None
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False) if last else None
        initialise(self)

    def forward(self, x):
        x = self.embedding(x) if self.embedding is not None else x.repeat_interleave(POOL, 1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.head is not None else x.unflatten(1, (-1, POOL)).mean(2)


class Turn:
    """A message whose receiver waits on the host until the sender has computed it."""

    def __init__(self, job):
        self.job, self.store = job, dist.distributed_c10d._get_default_store()
        self.host, self.events = [], []

    def begin(self):
        self.host.append([("begin", time.perf_counter())])
        self.events.append([])
        self.mark("begin")

    def mark(self, name):
        """Here the stream is when it has done what was launched before."""
        if self.job.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.events[-1].append((name, event))

    def send(self, name, tensor, to):
        self.job.synchronize()
        self.host[-1].append(("computed", time.perf_counter()))
        time.sleep(self.job.options.rest)
        self.store.set(f"turn/{name}/{self.job.rank}", "1")
        self.mark("send_begin")
        dist.send(tensor, to)
        self.mark("sent")
        self.host[-1].append(("sent", time.perf_counter()))

    def receive(self, name, tensor, source):
        self.store.wait([f"turn/{name}/{source}"])
        self.host[-1].append(("turn", time.perf_counter()))
        self.mark("receive_begin")
        dist.recv(tensor, source)
        self.mark("received")
        self.host[-1].append(("received", time.perf_counter()))
        return tensor

    def values(self):
        for kind, marks, took in (("host", self.host, lambda a, b: 1e3 * (b - a)),
                                  ("device", self.events, lambda a, b: a.elapsed_time(b))):
            warm = marks[len(marks) // 4:]
            for n in range(1, min(map(len, warm), default=0)):
                name = f"turn_{kind}_{warm[0][n - 1][0]}_{warm[0][n][0]}_ms"
                self.job.value(name, f"{statistics.median(took(m[n - 1][1], m[n][1]) for m in warm):.4f}")


def main():
    options = parser(__doc__)
    # A device that two processes keep busy is slower for its power limit than one that waits for absent ranks, as in a cluster. In
    # front of a message, since the store does not hold up a receiver in emulation.
    options.add_argument("--rest", type=float, default=0.0, help="seconds that a rank sleeps when it has computed, before it sends")
    options = options.parse_args()
    job = Job(options)
    shape = shape_of(options, state_share=1 / job.world, activation_share=1 / job.world)
    first, last = job.rank == 0, job.rank == job.world - 1
    torch.manual_seed(options.seed + job.rank)
    with job.device:
        stage = Stage(shape, job.rank, job.world)
    adam, turn = optimizer(stage.parameters()), Turn(job)
    wire = (shape.batch, shape.length // POOL, shape.width)

    def step(i):
        turn.begin()
        tokens = job.tokens(i, shape.batch, shape.length, shape.vocabulary, lane=0)
        if first:
            x = tokens[:, :-1]
        else:
            x = turn.receive(f"{i}/forward", torch.empty(wire, device=job.device, dtype=job.compute), job.rank - 1)
            x.requires_grad_()
        with job.autocast():
            y = stage(x)
            loss = token_loss(y, tokens) if last else None
        if last:
            loss.backward()
        else:
            turn.send(f"{i}/forward", y.detach().to(job.compute).contiguous(), job.rank + 1)
            gradient = turn.receive(f"{i}/backward", torch.empty(wire, device=job.device, dtype=job.compute), job.rank + 1)
            y.backward(gradient.to(y.dtype))
        norm = torch.nn.utils.clip_grad_norm_(stage.parameters(), options.clip or float("inf"), foreach=True)
        adam.step()
        back = None if first else x.grad
        adam.zero_grad(set_to_none=True)
        if not first:
            turn.send(f"{i}/backward", back.contiguous(), job.rank - 1)
        turn.mark("end")
        # Only the last stage has a loss; the others show the length of their gradient.
        return loss.detach() if last else norm, norm

    job.loop(step)
    turn.values()
    job.end()


main()
