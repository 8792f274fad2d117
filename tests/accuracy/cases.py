"""The shapes that `make accuracy` compares. One entry a case; docs/measurements has the tables."""

from dataclasses import dataclass, field

GPUS_PER_NODE = 8


@dataclass
class Case:
    name: str
    about: str
    world: int
    sandbox: list
    arguments: dict  # moetrain options, without dashes; True = a flag
    gpus_per_node: int = GPUS_PER_NODE
    iterations: int = 5
    environment: dict = field(default_factory=dict)
    assistants: int = 1

    def program(self, moetrain, iterations=None, exact=True):
        argv = [moetrain, "--print-ranks=all", f"--iterations={iterations or self.iterations}"]
        if exact:
            argv.append("--exact-sums")
        for name, value in self.arguments.items():
            argv.append(f"--{name}" if value is True else f"--{name}={value}")
        return argv


# Rank order of moetrain, inner to outer: tensor, data, pipeline.
CASES = [
    Case("mixed-16", "TP 2, PP 2, DP 4, EP 2", 16, [0],
         {"tp": 2, "pp": 2, "ep": 2, "layers": 4, "micro-batches": 4}),
    Case("stages-16", "TP 2, PP 4, DP 2: a sandbox rank in every stage", 16, [0, 4, 8, 12],
         {"tp": 2, "pp": 4, "layers": 4, "moe-every": 0, "micro-batches": 6}),
    Case("experts-16", "DP 16, EP 8, uneven routing", 16, [0, 9],
         {"ep": 8, "experts": 8, "layers": 2, "uneven-routing": 1.5, "micro-batches": 2}),
    Case("slow-32", "TP 4, PP 2, DP 4, rank 21 is slower by a fifth", 32, [0],
         {"tp": 4, "pp": 2, "layers": 4, "micro-batches": 4, "slow-rank": 21, "slow-factor": 1.2}),
    Case("lengths-32", "PP 2, DP 16, EP 4, sequence lengths vary", 32, [3, 16],
         {"pp": 2, "ep": 4, "layers": 4, "micro-batches": 4, "variable-seq": True}),
    Case("split-tensor-16", "TP 4 over nodes of 2: two sandbox ranks of a tensor group on different nodes", 16, [0, 2],
         {"tp": 4, "pp": 2, "layers": 2, "micro-batches": 3}, gpus_per_node=2),
    Case("one-connection-16", "PP 4, DP 4, pre-posted receives, CUDA_DEVICE_MAX_CONNECTIONS=1", 16, [5],
         {"pp": 4, "layers": 4, "micro-batches": 6}, environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
    Case("large-64", "TP 2, PP 4, DP 8, EP 4", 64, [0, 33],
         {"tp": 2, "pp": 4, "ep": 4, "layers": 4, "micro-batches": 4}),
]

# What CI runs: small, but all of the path.
SHORT = Case("short-8", "TP 2, PP 2, DP 2 (for CI)", 8, [0],
             {"tp": 2, "pp": 2, "layers": 2, "micro-batches": 2})

# The critical path runs through one kernel of a slow virtual rank, so that 5 % of one work value shows.
PLANT = Case("plant-4", "PP 2, DP 2, one virtual rank bounds everything", 4, [0],
             {"pp": 2, "layers": 2, "moe-every": 0, "micro-batches": 1, "slow-rank": 1, "slow-factor": 12,
              "ffn": 256}, gpus_per_node=8, iterations=3)
