"""What a run was doing that did not end in time: its processes, the device, the host's memory, the ends of its ranks' logs."""

import os
import signal
import subprocess
import time

from harness.tree import Tree

STACKS = signal.SIGUSR2  # torch/common.py has it print them
TAIL = 6000  # bytes of each rank's log


def _read(path, most=1 << 16):
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            return text.read(most)
    except OSError:
        return ""


def catches(pid, number):
    """A signal that a process does not catch would end it."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("SigCgt:"):
            return int(line.split()[1], 16) >> (number - 1) & 1 == 1
    return False


def describe(pid):
    """Name, state, threads, memory, processor seconds, and where in the kernel each thread sleeps."""
    status = dict(line.split(":", 1) for line in _read(f"/proc/{pid}/status").splitlines() if ":" in line)
    fields = _read(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0
    value = lambda name: status.get(name, "").strip()  # noqa: E731
    waits = {}
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            where = _read(f"/proc/{pid}/task/{thread}/wchan") or "?"
            waits[where] = waits.get(where, 0) + 1
    except OSError:
        pass
    where = ", ".join(f"{name} x {n}" for name, n in sorted(waits.items(), key=lambda w: -w[1])[:5])
    return f"{pid} {value('Name')} {value('State')}, {value('Threads')} threads, {value('VmRSS')}, {seconds:.1f} s: {where}"


def tail(path):
    try:
        with open(path, "rb") as log:
            log.seek(max(0, os.path.getsize(path) - TAIL))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def autopsy(pid, ranks=()):
    """Text about process `pid` and its descendants, which still run; ranks: files that they write to."""
    alive = sorted(Tree(pid).look())
    parts = ["== processes", *map(describe, alive)]
    for process in alive:
        if catches(process, STACKS):
            try:
                os.kill(process, STACKS)
            except OSError:
                pass
    if ranks:
        time.sleep(1.5)
    parts += ["== memory", *_read("/proc/meminfo").splitlines()[:5]]
    try:
        smi = subprocess.run(["nvidia-smi", "--query-gpu=memory.used,memory.total,utilization.gpu", "--format=csv"],
                             capture_output=True, text=True, timeout=10, check=False).stdout
        parts += ["== devices", smi.strip()]
    except (OSError, subprocess.SubprocessError):
        pass
    for path in ranks:
        parts += [f"== {os.path.basename(path)}", tail(path)]
    return "\n".join(parts) + "\n"
