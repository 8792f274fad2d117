"""Stages about device memory: worlds that do not fit, the speed of switching, the batch at which memory runs out."""

import json
import os
import re
import subprocess
import sys
import threading
import time

from harness import compare, parse
from harness.functional import keep_numbers, step, summary
from harness.launch import Failed, phase_numbers, say
from harness.programs import FOLDER, MORE_OVERFULL, OVERFULL, Program, choose

TOOLS = os.path.join(os.path.dirname(FOLDER), "tools")
MICRO_STEPS = 4
REAL_RANKS = 16


class Watch:
    """The most memory in use while it watches, above what was in use before: of the host, and of the devices named.

    Host memory in use is total less available: a virtual machine's total may grow as it is used.
    """

    def __init__(self, launcher=None):
        self.devices = [] if launcher is None or launcher.options.soft else launcher.devices

    def __enter__(self):
        self.before = self.most = self.host()
        self.device_before = self.device_most = self.on_devices()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.peak = self.most - self.before
        self.device_peak = self.device_most - self.device_before

    def watch(self):
        looks = 0
        while not self.stop.wait(0.25):
            self.most = max(self.most, self.host())
            looks += 1
            if looks % 8 == 0:
                self.device_most = max(self.device_most, self.on_devices())

    @staticmethod
    def host():
        with open("/proc/meminfo", encoding="ascii") as text:
            facts = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in text}
        return facts["MemTotal"] - facts["MemAvailable"]

    def on_devices(self):
        if not self.devices:
            return 0
        try:
            out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i",
                                  ",".join(self.devices)], capture_output=True, text=True, timeout=20, check=True).stdout
            return sum(int(word) << 20 for word in out.split())
        except (OSError, ValueError, subprocess.SubprocessError):
            return 0


DEVICE = 143e9  # of an H200, as ranks may take it
CONTEXT = 0.734e9


def host_pool(world, gib, most):
    """Bytes to pin. Whole ranks are moved, one comes in while another goes out, and what PyTorch keeps is more than it was asked for."""
    each = 1.18 * gib * (1 << 30)
    fit = int((DEVICE - world * CONTEXT) / each)
    return int(min(most, max(8e9, (world - fit + 1) * each)))


PROCESS = 1.2e9  # of the host: a rank that runs PyTorch, without its staging
LEFT = 6e9       # the pool yields if that is too little


def host_share(launcher, program):
    """Bytes of the host's memory that the pool may have: what the ranks and their staging leave (with 67.6 GB for the pool and 2 GiB of staging
    each, 32 ranks needed more than the 135 GB of a machine with one GPU). Jobs for the other GPUs run beside it."""
    machine = launcher.results.get("machine", {})
    total = int(machine.get("memory", "0").split()[0]) * 1024 / max(1, len(machine.get("gpus", [])))
    staging = int(program.environment.get("PRISM_STAGING", 1 << 30))
    return max(8e9, min(110e9, total - LEFT - program.world * (PROCESS + staging)))


def eviction(launcher, program, seed):
    """Environment of a capture whose ranks must leave the device; seed 0: in prismd's own order, else by chance. Its own choice of what
    to pin goes by the memory that is there when it starts. A machine of one GPU has half the memory of one of two."""
    environment = {**program.environment, "PRISM_EVICTION_SEED": str(seed), "PRISM_LOG": "debug"}
    if launcher.options.soft:
        # The stand-in's ranks have some 0.8 MB each, in ranges of 2 MiB; PyTorch's small ones 150 MB.
        each = (90 if launcher.blind else 1) << 20
        return {**environment, "PRISM_DEVICES_PER_NODE": "1", "PRISM_DEVICE_MEMORY": str(program.world * each), "PRISM_HOST_POOL": str(1 << 30)}
    gib = next((float(a.split("=")[1]) for a in program.arguments if a.startswith("--gib=")), 0)
    return {"PRISM_HOST_POOL": str(host_pool(program.world, gib, host_share(launcher, program))), **environment}


def reference(launcher, row, program):
    """The same batch in micro-steps, which fits: on real NCCL, or captured where one device cannot hold so many ranks of it."""
    argv = program.argv(launcher, f"--accumulate={MICRO_STEPS}")
    if program.world <= REAL_RANKS:
        got = step(row, "accumulated", lambda: launcher.ranks(argv, program.world, f"{program.name}-accumulated", 200,
                                                              program.environment))
        return parse.read(got["text"]) if got else None
    trace = f"trace-{program.name}-accumulated"
    got = step(row, "accumulated", lambda: launcher.prism(argv, f"{program.name}-accumulated", 300, program.world, trace,
                                                          "capture", program.sandbox, 0, program.environment,
                                                          arguments=["--payload=control"]))
    launcher.forget(trace)
    return phase_numbers(got["logs"], "capture") if got else None


def capture(launcher, row, name, program, seed):
    """One capture; keeps the switching counters. Returns the losses of all ranks."""
    trace, environment = f"trace-{program.name}-{seed}", eviction(launcher, program, seed)
    row["host_pool_bytes"] = int(environment.get("PRISM_HOST_POOL", 0))
    with Watch() as host:
        got = step(row, name, lambda: launcher.prism(program.argv(launcher), f"{program.name}-{name}", 400, program.world, trace,
                                                     "capture", program.sandbox, 0, environment,
                                                     arguments=["--payload=control"]))
    row["host_peak_bytes"] = max(row.get("host_peak_bytes", 0), host.peak)
    launcher.forget(trace)
    if not got:
        return None
    row["switching"].append(got["switching"])
    if got["switching"] and "copies" in launcher.facts:
        row["rates"].append(rates(launcher.facts, got["switching"]))
    try:
        ranks = parse.complete(phase_numbers(got["logs"], "capture"), range(program.world), program.iterations)
    except parse.Incomplete as error:
        row["failures"].append(f"{name}: {error}")
        return None
    # Without the start of the processes, and the making of their contexts.
    row["capture_seconds"].append(max(sum(r["seconds"]) for r in ranks.values()))
    return ranks


def lower_bound(row, alone, program, bandwidth):
    """Seconds that the device needs at least: every rank's compute, measured alone on it, and the bytes that were moved.

    Out and in overlap, so the longer way counts. The compute of a rank alone includes its communication with itself.
    """
    switching = row["switching"][0] or {}
    moved = max(switching.get("bytes_out", 0), switching.get("bytes_in", 0))
    compute = sum(alone["seconds"]) * program.world if alone else None
    row["bound"] = {"compute_seconds": compute, "moved_bytes": moved, "copy_gb_per_second": bandwidth,
                    "copy_seconds": moved / bandwidth / 1e9}
    if row.get("memory_bytes") and row.get("device_bytes"):
        # Every rank is on the device once an iteration at least.
        row["bound"]["must_move_bytes"] = max(0, row["memory_bytes"] - row["device_bytes"]) * program.iterations
    # Where a rank cannot be run alone, the copies are a bound by themselves.
    row["bound"]["seconds"] = (compute or 0.0) + row["bound"]["copy_seconds"]


def overfull_row(launcher, row, program, bandwidth):
    """What decides most comes first: a capture, its bound; then the other order, then the same batch in micro-steps."""
    first = capture(launcher, row, "capture", program, 0)
    if first:
        row["numbers"]["captured"] = keep_numbers(first)
        row["memory_bytes"] = sum(r["values"].get("max_memory_allocated", 0) for r in first.values())
        row["device_bytes"] = first[0]["values"].get("device_total")
        alone = None
        if program.file not in ("moe", "ep"):
            got = step(row, "alone", lambda: launcher.ranks(program.argv(launcher), 1, f"{program.name}-alone", 60, program.environment))
            alone = parse.read(got["text"]).get(0) if got else None
        lower_bound(row, alone, program, bandwidth)
    second = capture(launcher, row, "capture-again", program, 2) if first else None
    for n, counters in enumerate(row["switching"]):
        if not (counters or {}).get("evictions"):
            row["failures"].append(f"capture {n + 1}: no rank was evicted")
    if first and second:
        row["comparisons"]["other-order"] = compare.numbers(first, second)
        if not row["comparisons"]["other-order"]["bits_equal"]:
            row["failures"].append("another eviction order gave other losses, first at rank, iteration "
                                   f"{row['comparisons']['other-order']['first_difference']}")
    got = reference(launcher, row, program) if first else None
    if got:
        try:
            real = parse.complete(got, range(program.world), program.iterations)
            row["numbers"]["accumulated"] = keep_numbers(real)
            row["comparisons"]["accumulated-captured"] = verdict = compare.numbers(real, first, program.tolerance)
            if not verdict["within"]:
                row["failures"].append(f"losses differ from the accumulated run's by {verdict['largest_difference']:.1e}")
        except parse.Incomplete as error:
            row["failures"].append(f"accumulated: {error}")
    row["passed"] = not row["failures"]


def copies(launcher):
    got = launcher.ranks([launcher.options.python, os.path.join(TOOLS, "copies.py"), "4"], 1, "copies", 90)
    return json.loads(parse.last_lines(got["text"])[-1])


def speeds(launcher):
    """Measured once a visit, before what is compared with them."""
    if "copies" not in launcher.facts:
        launcher.facts["copies"] = copies(launcher)
    return checkpoint(launcher)


def checkpoint(launcher):
    facts = launcher.facts
    if "checkpoint_process" not in facts:
        try:
            got = launcher.ranks([launcher.options.python, os.path.join(TOOLS, "checkpoint_process.py"), "4"], 1, "cucheckpoint", 60)
            facts["checkpoint_process"] = json.loads(parse.last_lines(got["text"])[-1])
        except (Failed, ValueError, IndexError) as error:
            # What is compared with it is lost, and nothing else.
            facts["checkpoint_process"] = {"errors": [str(error)]}
    return facts


def rates(facts, counters):
    """A capture's switching against plain copies and cuCheckpointProcess."""
    row = {"switching": counters, "passed": False}
    if not all(counters.get(n) for n in ("bytes_out", "bytes_in", "seconds_out", "seconds_in")):
        return row
    plain, driver = facts["copies"]["gb_per_second"], facts["checkpoint_process"]
    for way in ("out", "in"):
        row[way + "_gb_per_second"] = counters["bytes_" + way] / counters["seconds_" + way] / 1e9
        row[way + "_share"] = row[way + "_gb_per_second"] / max(plain[way])
    row["passed"] = min(row["out_share"], row["in_share"]) >= 0.9
    for name, way, seconds in (("checkpoint", "out", "checkpoint_seconds"), ("restore", "in", "restore_seconds")):
        if driver.get(seconds) and not any(driver["errors"]):
            row["times_faster_than_" + name] = row[way + "_gb_per_second"] / (driver["bytes"] / driver[seconds] / 1e9)
    row["passed"] &= row.get("times_faster_than_checkpoint", 0) >= 10
    say(f"switching: out {row['out_gb_per_second']:.1f} GB/s ({100 * row['out_share']:.0f} %), in "
        f"{row['in_gb_per_second']:.1f} GB/s ({100 * row['in_share']:.0f} %)")
    return row


def overfull(launcher, result):
    """Worlds whose memory is more than the device has: captured twice, with two orders of eviction."""
    bandwidth = max(speeds(launcher)["copies"]["gb_per_second"]["out"])
    table = OVERFULL + MORE_OVERFULL if launcher.options.programs else OVERFULL
    for program in choose(table, launcher.options.programs):
        row = {"program": program.name, "about": program.about, "world": program.world, "arguments": program.arguments,
               "tolerance": program.tolerance, "micro_steps": MICRO_STEPS, "steps": {}, "comparisons": {}, "numbers": {},
               "switching": [], "rates": [], "capture_seconds": [], "failures": []}
        result["rows"].append(row)
        overfull_row(launcher, row, program, bandwidth)
        say(summary(row) + f"\n    {row['switching']}")
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])


MOVED = re.compile(r"(out|in) alone: ([0-9.]+) GB in ([0-9.]+) s; beside the other way: ([0-9.]+) GB in ([0-9.]+) s")


def moved(text):
    """{way: {"alone", "beside": {"gb", "seconds", "gb_per_second"}}} of what the movers said, until the last rank had been told to leave:
    behind that ranks end, and what the driver does then for each of them keeps the others waiting."""
    leaving = text.rfind("stands still")
    text = text[:leaving] if leaving >= 0 else text
    found = {way: {how: {"gb": 0.0, "seconds": 0.0} for how in ("alone", "beside")} for way in ("out", "in")}
    for way, *numbers in MOVED.findall(text):
        for how, gb, seconds in (("alone", *numbers[:2]), ("beside", *numbers[2:])):
            found[way][how]["gb"] += float(gb)
            found[way][how]["seconds"] += float(seconds)
    for both in found.values():
        for of in both.values():
            of["gb_per_second"] = of["gb"] / of["seconds"] if of["seconds"] else None
    return found


def moves_row(launcher):
    """Four ranks of which two fit (gpu_moves), against plain copies from and to as much pinned memory (gpu_pinned), and against
    cuCheckpointProcess. Copies alone are compared with copies alone, both ways at once with both ways at once."""
    test, visible = os.path.join(os.path.dirname(launcher.bin), "test"), {"CUDA_VISIBLE_DEVICES": launcher.devices[0]}
    small = launcher.options.soft
    copies_of = []
    # As much as the mover has, made by as many threads; then less, of which copies both ways were faster at times. The fastest counts.
    for pieces, threads in (("160", "4"), ("96", "4"), ("96", "1")):
        size = ["16", "4"] if small else ["256", pieces]
        got = launcher.call([os.path.join(test, "gpu_pinned"), *size, "register", threads], f"pinned-{pieces}-{threads}", 90, {} if small else visible)
        copies_of.append(json.loads(next(line for line in got["text"].splitlines() if line.startswith("{"))))
    plain = {name: max(c[name] for c in copies_of) for name in copies_of[0] if name.endswith("gb_per_s")}
    mib, device, pool = (100, int(3e8), 1 << 30) if small else (11000, int(30e9), int(40e9))
    environment = {"PRISM_DEVICE_MEMORY": str(device), "PRISM_HOST_POOL": str(pool), "PRISM_LOG": "debug", "PRISM_DEVICES_PER_NODE": "1"}
    got = launcher.prism([os.path.join(test, "gpu_moves"), str(mib), "5", "0", "1" if small else "9"], "moves", 120, 4, "trace-moves",
                         "capture", "0", 0, environment, arguments=["--payload=control"])
    wrong = [line for text in got["logs"].values() for line in text.splitlines() if "wrong bytes:" in line]
    launcher.forget("trace-moves")
    row = {"program": "gpu_moves", "seconds": got["seconds"], "plain": plain, "copies": copies_of, "switching": got["switching"], "moved": moved(got["text"]),
           "wrong": wrong, "shares": {}, "failures": []}
    if len(wrong) != 4 or not all(line.endswith("wrong bytes: 0") for line in wrong):
        row["failures"].append(f"contents: {wrong}")
    for way in ("out", "in"):
        for how, name in (("alone", f"{way}_gb_per_s"), ("beside", f"both_{way}_gb_per_s")):
            speed = row["moved"][way][how]["gb_per_second"]
            row["shares"][f"{way} {how}"] = share = speed / plain[name] if speed and plain[name] else None
            if not small and share is None:
                row["failures"].append(f"nothing was moved {way} {how}")
            elif not small and share < MOVED_SHARE:
                row["failures"].append(f"{way} {how}: {speed:.1f} GB/s, {100 * share:.0f} % of the plain copy's {plain[name]:.1f}")
    row["passed"] = not row["failures"]
    say(f"moved: {row['moved']}\n    plain: {plain}\n    shares: {row['shares']}")
    return row


MOVED_SHARE, CHECKPOINT_TIMES = 0.9, 10


def switch(launcher, result):
    """Switching speed against plain pinned copies and against cuCheckpointProcess, in the same visit."""
    row = moves_row(launcher)
    result["rows"].append(row)
    facts = checkpoint(launcher)
    driver, all_moved = facts["checkpoint_process"], row["moved"]
    if driver.get("bytes") and not any(driver["errors"]):
        for way, seconds in (("out", "checkpoint_seconds"), ("in", "restore_seconds")):
            both = [of for of in all_moved[way].values() if of["gb_per_second"]]
            row[f"times_faster_{way}"] = min(of["gb_per_second"] for of in both) / (driver["bytes"] / driver[seconds] / 1e9) if both else None
        there_and_back = sum(1 / min(of["gb_per_second"] for of in all_moved[way].values() if of["gb_per_second"]) for way in ("out", "in"))
        row["times_faster"] = (driver["checkpoint_seconds"] + driver["restore_seconds"]) / (driver["bytes"] / 1e9 * there_and_back)
        say(f"against cuCheckpointProcess: {row['times_faster']:.1f} times faster there and back")
    if not launcher.options.soft and (row.get("times_faster_out") or 0) < CHECKPOINT_TIMES:
        row["failures"].append(f"out {row.get('times_faster_out')} times as fast as cuCheckpointProcess")
    row["passed"] = not row["failures"]
    for captured in launcher.results["stages"].get("overfull", {}).get("rows", []):
        result["rows"] += [{"program": captured["program"], **r} for r in captured["rates"]]
    result.update(facts)
    result["passed"] = all(r["passed"] for r in result["rows"])


def vmm(launcher, result):
    """What switching rests on: copies of ranges that another process maps, beside plain ones (gpu_vmm)."""
    program = os.path.join(os.path.dirname(launcher.bin), "test", "gpu_vmm")
    if launcher.options.soft:
        result["skipped"] = "software GPUs export no memory"
        return
    got = launcher.call([program, "8"], "vmm", 120, {"CUDA_VISIBLE_DEVICES": launcher.devices[0]})
    lines = [json.loads(line) for line in got["text"].splitlines() if line.startswith("{")]
    wrong = [line for line in lines if line["row"] == "contents" and line["wrong"]]
    result["rows"].append({"program": "gpu_vmm", "seconds": got["seconds"], "measured": lines, "passed": bool(lines) and not wrong})
    result["passed"] = result["rows"][0]["passed"]


def attempt(file, batch, how, run, tries):
    """Does a batch fit? (fits, what rank 0 said of memory). Anything but running out of memory is a failure."""
    with open(file, "w", encoding="ascii") as text:
        text.write(f"{batch}\n")
    got = run()
    text = got["text"] + "".join(got.get("logs", {}).values())
    fits = got["code"] == 0
    if not fits and "out of memory" not in text.lower():
        raise Failed(f"batch {batch}, {how}: exit code {got['code']} without an out-of-memory error", parse.last_lines(got["text"]))
    values = parse.read(got["text"]).get(0, {}).get("values", {})
    tries.append({"batch": batch, "how": how, "fits": fits, "seconds": got["seconds"], "values": values})
    say(f"batch {batch} {how}: {'fits' if fits else 'out of memory'} ({got['seconds']:.0f} s)")
    return fits, values


def limit_row(file, full, emulated):
    """The smallest batch that does not fit in full, and whether the emulations stop there too.

    The program reads its batch from `file` when it starts, so that one trace serves all batches: communication does not depend
    on it. full() and emulated[name]() run it and return the launcher's result.
    """
    tries, start = [], time.monotonic()
    row = {"tries": tries, "failures": [], "emulated": {}}
    _, four = attempt(file, 4, "in full", full, tries)
    _, eight = attempt(file, 8, "in full", full, tries)
    a, b = four["device_used"], eight["device_used"]  # with what the allocator keeps
    guess = 8 + int((eight["device_total"] - b) / max(1, (b - a) / 4))
    low, high = compare.first_that_fails(lambda batch: attempt(file, batch, "in full", full, tries)[0], 8, guess)
    row["first_failing_batch_full"] = high
    for name, run in emulated.items():
        below, above = (attempt(file, batch, name, run, tries)[0] for batch in (low, high))
        row["emulated"][name] = {"fits_below": below, "fits_there": above}
        if not below or above:
            row["failures"].append(f"{name}: batch {low} {'fits' if below else 'does not fit'}, {high} {'fits' if above else 'does not fit'}")
    row["seconds"] = time.monotonic() - start
    row["passed"] = not row["failures"]
    return row


def ballast_of_one(launcher):
    """Environment of an emulation: the ballast table of a rank alone, measured here."""
    table = os.path.join(launcher.out, "ballast-one.json")
    helper = os.path.join(os.path.dirname(launcher.bin), "test", "ballast")
    launcher.call([sys.executable, os.path.join(os.path.dirname(TOOLS), "ballast.py"), "--helper", helper, "--sizes=1", "--output", table],
                  "ballast-one", 60, {"CUDA_VISIBLE_DEVICES": launcher.devices[0]})
    with open(table, encoding="utf-8") as text:
        return json.load(text), {"PRISM_BALLAST": table}


def exhaustion(launcher, result):
    """One rank: the smallest batch that does not fit, in full and emulated."""
    if launcher.options.soft:
        result["skipped"] = "needs PyTorch"
        return
    file = os.path.join(launcher.work, "batch")
    with open(file, "w", encoding="ascii") as text:
        text.write("4\n")
    program = Program("one", "one", 1, "", ["--size=medium", "--ddp", f"--batch-from={file}"], iterations=2)
    argv = program.argv(launcher)
    launcher.prism(argv, "limit-record", 200, 1, "trace-limit")
    table, environment = ballast_of_one(launcher)
    row = limit_row(file, lambda: launcher.ranks(argv, 1, "limit-full", 90, check=False),
                    {"emulated": lambda: launcher.prism(argv, "limit-emulated", 120, 1, "trace-limit", "emulate", extra=environment,
                                                        check=False)})
    row["ballast"] = table
    launcher.forget("trace-limit")
    result["rows"].append({"program": program.name, **row})
    result["passed"] = row["passed"]
