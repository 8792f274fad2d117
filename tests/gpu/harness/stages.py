"""The stages by name, in the order in which they run."""

from dataclasses import dataclass
from typing import Callable

from harness import functional


@dataclass
class Stage:
    """work(launcher, result) fills result["rows"] and result["passed"]; limit in seconds."""

    work: Callable
    limit: float
    default: bool = True


STAGES = {
    "doctor": Stage(functional.doctor, 150),
    "programs": Stage(functional.programs, 590),
    "assistants": Stage(functional.assistants, 400),
}
