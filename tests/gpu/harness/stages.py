"""The stages by name, in the order in which they run."""

from dataclasses import dataclass
from typing import Callable

from harness import functional, memory, scripts, timing


@dataclass
class Stage:
    """work(launcher, result) fills result["rows"] and result["passed"]; limit in seconds."""

    work: Callable
    limit: float
    default: bool = True


STAGES = {
    "doctor": Stage(functional.doctor, 150),
    "programs": Stage(functional.programs, 590),
    "repeat": Stage(functional.repeat, 300),
    "graphs": Stage(scripts.graphs, 220),
    "assistants": Stage(functional.assistants, 400),
    "moetrain": Stage(scripts.moetrain, 590),
    "devices": Stage(scripts.devices, 200),
    "overfull": Stage(memory.overfull, 1200),
    "switch": Stage(memory.switch, 400),
    "vmm": Stage(memory.vmm, 150),
    "timing": Stage(timing.timing, 590),
    "larger": Stage(timing.larger, 1200),
    "kernels": Stage(timing.kernels, 300),
    "memory": Stage(memory.exhaustion, 590),
    "cost": Stage(timing.cost, 400),
    "refusals": Stage(scripts.refusals, 300),
    "external": Stage(scripts.external, 600, default=False),
    "slurm": Stage(scripts.slurm, 300, default=False),
    "world": Stage(timing.world, 600, default=False),
    "pacing": Stage(timing.pacing, 10),
}
