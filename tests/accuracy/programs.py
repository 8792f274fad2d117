"""Start the full run and the emulation, read what they print."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field

ITERATION = re.compile(
    r"rank (\d+) iteration (\d+) loss (\S+) grad_norm (\S+) seconds (\S+) loss_bits (0x[0-9a-f]+) grad_bits (0x[0-9a-f]+)")
MEMORY = re.compile(r"rank (\d+) peak_memory_bytes (\d+)")


class Failed(Exception):
    pass


@dataclass
class Rank:
    seconds: list = field(default_factory=list)  # by iteration
    loss: list = field(default_factory=list)
    bits: list = field(default_factory=list)  # (loss, gradient norm)
    peak: int = -1


@dataclass
class Run:
    ranks: dict  # rank -> Rank
    lateness: float  # overrun of the worst process against its run time; nan when there are no statistics
    wall: float = 0.0


def parse(text):
    ranks = {}
    for line in text.splitlines():
        found = ITERATION.search(line)
        if found:
            rank = ranks.setdefault(int(found[1]), Rank())
            if int(found[2]) != len(rank.seconds):
                raise Failed(f"iteration {found[2]} of rank {found[1]} came out of order")
            rank.seconds.append(float(found[5]))
            rank.loss.append(float(found[3]))
            rank.bits.append((found[6], found[7]))
            continue
        found = MEMORY.search(line)
        if found:
            ranks.setdefault(int(found[1]), Rank()).peak = int(found[2])
    return ranks


class Tools:
    """What was built, and the environment that makes it run on software GPUs."""

    def __init__(self, build, work, source):
        self.build, self.work, self.source = build, work, source
        self.moetrain = os.path.join(build, "bin", "moetrain")
        self.prism = os.path.join(build, "bin", "prism")
        self.launch = os.path.join(source, "contrib", "moetrain", "launch.sh")
        for path in (self.moetrain, self.prism):
            if not os.access(path, os.X_OK):
                raise Failed(f"{path} is not built; run make first")

    def environment(self, time_scale, seed, stats, extra=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PRISM_", "SLURM_", "SOFTGPU_"))}
        env["LD_LIBRARY_PATH"] = os.path.join(self.build, "lib", "softgpu")
        env["SOFTGPU_TIME_SCALE"] = repr(time_scale)
        env["SOFTGPU_SEED"] = str(seed)
        env["SOFTGPU_STATS"] = stats
        # Software devices keep their state in files: ours, so that runs beside this one cannot disturb it.
        env["SOFTGPU_DIR"] = os.path.join(self.work, "softgpu")
        os.makedirs(env["SOFTGPU_DIR"], mode=0o700, exist_ok=True)
        env.update(extra or {})
        return env

    def call(self, argv, env, log, timeout):
        """Run to the end in a process group of its own; returns standard output. All of it goes to log."""
        with open(log, "w", encoding="utf-8") as out:
            child = subprocess.Popen(argv, env=env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = child.wait(timeout)
            except subprocess.TimeoutExpired:
                code = "none (out of time)"
            except BaseException:
                end_group(child)
                raise
            if code != 0:
                end_group(child)
        with open(log, encoding="utf-8", errors="replace") as text:
            output = text.read()
        if code != 0:
            tail = "\n".join(output.splitlines()[-12:])
            raise Failed(f"{os.path.basename(argv[0])} {argv[1] if len(argv) > 1 else ''}: exit code {code}; {log} ends:\n{tail}")
        return output


def end_group(child):
    """prismd and its ranks clean up after SIGTERM; what stays is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            continue


def lateness(stats, seconds):
    """Largest share of its run time by which a process' real work came later than modelled."""
    worst = float("nan")
    for path in glob.glob(stats + ".*"):
        try:
            with open(path, encoding="utf-8") as text:
                late = json.load(text)["overrun_sum_s"] / seconds
        except (ValueError, KeyError, OSError):
            continue
        worst = late if worst != worst else max(worst, late)
    return worst


def finish(output, stats, expected, iterations):
    ranks = parse(output)
    missing = [r for r in expected if r not in ranks or len(ranks[r].seconds) != iterations or ranks[r].peak < 0]
    if missing:
        raise Failed(f"no complete output of rank {missing[0]} (and {len(missing) - 1} others)")
    total = max(sum(r.seconds) for r in ranks.values())
    return Run(ranks, lateness(stats, total), total)


def clear(prefix):
    for path in glob.glob(prefix + ".*"):
        os.unlink(path)


def full_run(tools, case, seed, time_scale, exact=True):
    """The whole job on software GPUs, without Prism."""
    stats = os.path.join(tools.work, f"stats-{case.name}-full-{seed}")
    clear(stats)
    env = tools.environment(time_scale, seed, stats, case.environment)
    argv = [tools.launch, "-g", str(case.gpus_per_node), str(case.world), "--"]
    argv += case.program(tools.moetrain, exact=exact)
    output = tools.call(argv, env, os.path.join(tools.work, f"{case.name}-full-{seed}.log"), 900)
    return finish(output, stats, range(case.world), case.iterations)


def measure_network(tools, case, time_scale):
    """The profile that Prism computes durations from: measured on the same links, as on real machines."""
    path = os.path.join(tools.work, f"network-{case.gpus_per_node}-{case.world}-{time_scale}.json")
    if os.path.exists(path):
        return path
    env = tools.environment(time_scale, 1, os.path.join(tools.work, "stats-doctor"))
    argv = [tools.launch, "-g", str(case.gpus_per_node), str(min(case.world, 32)), "--", tools.prism, "doctor",
            "--measure", "--max-bytes=262144", "--output", path]
    tools.call(argv, env, os.path.join(tools.work, f"doctor-{case.name}.log"), 900)
    return path


def emulate(tools, case, transport, phase, seed, time_scale, network, trace, exact=True):
    """transport: paced or nccl. phase: auto makes the trace first."""
    name = f"{case.name}-{transport}"
    stats = os.path.join(tools.work, f"stats-{name}")
    clear(stats)
    env = tools.environment(time_scale, seed, stats, case.environment)
    report = os.path.join(tools.work, f"{name}-report.json")
    argv = [tools.prism, "run", f"--emulate={case.world}", f"--gpus-per-node={case.gpus_per_node}",
            "--sandbox=" + ",".join(map(str, case.sandbox)), f"--phase={phase}", f"--trace={trace}",
            f"--network={network}", f"--report={report}",
            f"--assistants={0 if transport == 'paced' else case.assistants}", "--"]
    argv += case.program(tools.moetrain, exact=exact)
    output = tools.call(argv, env, os.path.join(tools.work, f"{name}.log"), 1200)
    run = finish(output, stats, case.sandbox, case.iterations)
    with open(report, encoding="utf-8") as text:
        facts = json.load(text)
    if facts.get("transport") != transport:
        raise Failed(f"asked for transport {transport}, the report says {facts.get('transport')}")
    return run, facts


def progress(text):
    print(text, file=sys.stderr, flush=True)
