"""The programs: which world, which options in the small and in the over-full size."""

import os
from dataclasses import dataclass, field

from harness.launch import Failed

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "torch")


@dataclass
class Program:
    name: str
    file: str  # below tests/gpu/torch
    world: int
    about: str
    arguments: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    sandbox: str = "0"
    iterations: int = 4
    # Losses are sums of as many numbers as there are ranks, in an order that differs from real NCCL's: bits are equal
    # only where sums have two terms (or none); above that, relative difference of the losses.
    tolerance: float = 1e-5

    def argv(self, launcher, *more, iterations=None):
        count = iterations or self.iterations
        arguments = [*self.arguments, *more]
        if launcher.blind:
            # On the host's memory.
            arguments = [a for a in arguments if not a.startswith(("--size=", "--gib="))]
        return [launcher.options.python, os.path.join(FOLDER, self.file + ".py"), f"--iterations={count}", *arguments]


PROGRAMS = [
    Program("ddp", "ddp", 4, "DistributedDataParallel, gradient clipping"),
    Program("ddp-2", "ddp", 2, "the same with sums of two terms", sandbox="1"),
    Program("ddp-accumulate", "ddp", 4, "gradient accumulation with no_sync", ["--accumulate=2"]),
    Program("fsdp2", "fsdp2", 4, "FSDP2 on a 2 x 2 mesh"),
    Program("tp", "tp", 2, "DTensor tensor parallel"),
    Program("pp", "pp", 4, "pipelining 1F1B, receives posted ahead", sandbox="1"),
    Program("pp-one-connection", "pp", 4, "the same with CUDA_DEVICE_MAX_CONNECTIONS=1",
            environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    Program("ep", "ep", 4, "expert parallel all-to-all, splits from data"),
    Program("objects", "objects", 4, "object collectives, barriers, sub-groups, every call once", tolerance=0.0),
    # Compiled anew in every run: who compiles tries kernels out, which shows in its peak memory; who finds them in the cache does not.
    Program("compiled", "compiled", 2, "torch.compile under DistributedDataParallel", environment={"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
    Program("varlen", "varlen", 2, "sequence lengths that vary", iterations=5),
    Program("checkpoint", "checkpoint", 2, "activation checkpointing"),
    Program("loader", "loader", 2, "DataLoader with two worker processes"),
    Program("moe", "moe", 8, "Qwen3-MoE-shaped, TP 2 x EP 2 x DP 2"),
    Program("one", "one", 1, "a world of one rank", ["--ddp"], tolerance=0.0),
    Program("turns", "turns", 3, "pipeline stages that take turns", sandbox="1"),
]

# Gradients of a whole backward pass are under way at once: without it ranks that share a device are switched more often.
STAGING = {"PRISM_STAGING": str(2 << 30)}
SMALL_STAGING = {"PRISM_STAGING": str(1 << 29)}  # of 32 ranks: 2 GiB each are half of what a machine with one GPU has
# Worlds whose memory exceeds the device: ranks, GiB a rank. Accumulation makes the same batch fit.
OVERFULL = [
    Program("ddp-16x12", "ddp", 16, "DDP, 16 ranks of 12 GB", ["--size=full", "--gib=12"], iterations=2, tolerance=1e-4, environment=STAGING),
    Program("moe-32x5", "moe", 32, "Qwen3-MoE-shaped, TP 2 x EP 4 x DP 4, 32 ranks of 5 GB",
            ["--size=full", "--gib=5", "--tp=2", "--ep=4"], iterations=2, tolerance=1e-4, environment=SMALL_STAGING),
]
MORE_OVERFULL = [
    # A quick look at eviction: the device is made small.
    Program("ddp-4x12", "ddp", 4, "DDP, 4 ranks of 12 GB in 32 GB", ["--size=full", "--gib=12"], iterations=2, tolerance=1e-4,
            environment={**STAGING, "PRISM_DEVICE_MEMORY": str(32 << 30), "PRISM_HOST_POOL": str(36 << 30)}),
    Program("fsdp2-16x12", "fsdp2", 16, "FSDP2, 16 ranks of 12 GB", ["--size=full", "--gib=12"], iterations=2, tolerance=1e-4, environment=STAGING),
    Program("pp-16x12", "pp", 16, "1F1B, 16 ranks of 12 GB", ["--size=full", "--gib=12", "--layers=16"], iterations=2,
            tolerance=1e-4, environment=STAGING),
    Program("ep-32x5", "ep", 32, "expert parallel, 32 ranks of 5 GB", ["--size=full", "--gib=5"], iterations=2, tolerance=1e-4, environment=SMALL_STAGING),
    Program("tp-8x24", "tp", 8, "tensor parallel, 8 ranks of 24 GB", ["--size=full", "--gib=24"], iterations=2, tolerance=1e-4, environment=STAGING),
    Program("checkpoint-16x12", "checkpoint", 16, "activation checkpointing, 16 ranks of 12 GB", ["--size=full", "--gib=12"],
            iterations=2, tolerance=1e-4, environment=STAGING),
    Program("varlen-16x12", "varlen", 16, "varying lengths, 16 ranks of 12 GB", ["--size=full", "--gib=12"], iterations=2,
            tolerance=1e-4, environment=STAGING),
    Program("loader-16x12", "loader", 16, "DataLoader, 16 ranks of 12 GB", ["--size=full", "--gib=12", "--workers=1"],
            iterations=2, tolerance=1e-4, environment=STAGING),
    Program("compiled-16x12", "compiled", 16, "torch.compile, 16 ranks of 12 GB", ["--size=full", "--gib=12"], iterations=2,
            tolerance=1e-4, environment=STAGING),
]

# One world at three sizes with the same 32 representatives: TP 2 x EP 8 x PP 2, and what is left is DP. Folded over DP.
WORLD = ["--size=medium", "--batch=4", "--layers=4", "--tp=2", "--ep=8", "--pp=2"]
# Beyond 128 ranks PyTorch takes several ranks as roots of a communicator, some of which do not run in folded capture.
WORLDS = [Program(f"world-{n}", "mixed", n, f"Qwen3-MoE-shaped, TP 2 x EP 8 x DP {n // 32} x PP 2, folded over DP", WORLD,
                  environment={"TORCH_NCCL_RANKS_PER_ROOT": str(n)}) for n in (8192, 2048, 512)]


def layout(program):
    """What --layout and --fold say of such a world."""
    sizes = {a.split("=")[0][2:]: int(a.split("=")[1]) for a in program.arguments if a.startswith(("--tp=", "--ep=", "--pp="))}
    tp, ep, pp = sizes["tp"], sizes["ep"], sizes["pp"]
    return [f"--layout=tp:{tp},ep:{ep},dp:{program.world // (tp * ep * pp)},pp:{pp}", "--fold=dp"]


def choose(table, wanted):
    """The programs of a comma-separated list, all when it is empty; unknown names are an error."""
    if not wanted:
        return list(table)
    by_name = {p.name: p for p in table}
    for name in wanted.split(","):
        if name not in by_name:
            raise Failed(f"no program '{name}' in this stage; there are {', '.join(by_name)}")
    return [by_name[n] for n in wanted.split(",")]
