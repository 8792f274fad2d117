"""Whether this machine has what the stages need: said in one line before the first begins, not by each of them in an hour."""

import os
import subprocess
import sys

# Stages that get by without PyTorch.
WITHOUT_TORCH = {"doctor", "moetrain", "vmm", "slurm", "pacing"}

GPU = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); raise SystemExit(cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(n)) or not n.value)"
TORCH = "import torch, torch.distributed as d; raise SystemExit(0 if torch.cuda.is_available() and d.is_nccl_available() else 9)"


def run(launcher, python, program):
    """Exit code and last line."""
    try:
        done = subprocess.run([python, "-c", program], env=launcher.environment(), capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return -1, str(error)
    lines = done.stderr.strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def lacking(launcher, stages):
    """What is missing, in words; None: nothing."""
    options = launcher.options
    for folder, name in (options.bin, "prism"), (options.bin, "prismd"), (options.lib, "libprism.so"):
        if not os.path.exists(os.path.join(folder, name)):
            return f"there is no {name} in {folder}: make all test-programs, or --bin and --lib"
    if options.soft:
        return None
    if run(launcher, sys.executable, GPU)[0]:
        return "CUDA finds no GPU here (--soft rehearses on software GPUs)"
    if set(stages) <= WITHOUT_TORCH:
        return None
    code, said = run(launcher, options.python, TORCH)
    if code == 9:
        return f"PyTorch of {options.python} has no CUDA or no NCCL here (--python names another)"
    return f"{options.python} cannot import PyTorch (--python names another): {said}" if code else None
