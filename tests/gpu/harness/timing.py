"""Stages about time: full against emulated, emulated against predicted, kernels, cost of the library, pacing."""

import json
import os
import re

from harness import compare, memory, parse
from harness.clocks import Clocks
from harness.functional import possible, step, summary
from harness.launch import Failed, calibrated_durations, folder_bytes, keep_trace, phase_numbers, read, say
from harness.programs import STAGING, WORLDS, Program, choose, layout

WARM = 5
ERROR_LIMIT, PREDICTION_LIMIT = 0.01, 0.005
# Captured iterations. Calibration takes the last one several times, and emulation to the program's end: so that is the one that is predicted.
RECORDED = 6
# Of a world of thousands of ranks, whose iterations take a quarter of a minute to capture.
RECORDED_WORLD = 3

TURNS = [
    Program("one", "one", 1, "a world of one rank", ["--size=medium", "--ddp"]),
    # With rests: what two processes that share a GPU cost each other (1.5 ms a change of turns, measured) is little beside them, and the
    # device is as far from its power limit in the full run as in the emulation, which has half of the work.
    Program("turns-2", "turns", 2, "two stages in turns", ["--size=medium", "--layers=16", "--rest=0.1"]),
    # Without tensor cores and rests: whether a device draws less so is what the clocks beside it show.
    Program("turns-2-single", "turns", 2, "two stages in turns, single precision",
            ["--size=medium", "--layers=16", "--batch=2", "--dtype=float32"]),
    Program("turns-3", "turns", 3, "three stages in turns", ["--size=medium", "--layers=18", "--rest=0.1"], sandbox="1"),
]
LARGER = [
    Program("moe-8", "moe", 8, "TP 2 x EP 2 x DP 2", ["--size=medium", "--layers=2", "--batch=4"]),
    # The host sets the pace of the one above, and that of a machine's processes varied by a fifth within minutes. One batch: which
    # experts' tokens a rank gets, and so its work, follows its data, of which emulation has other ones than calibration had.
    Program("moe-8x16", "moe", 8, "the same, bound by the device, one batch", ["--size=medium", "--layers=2", "--batch=16", "--data=1"]),
    # Fewer waits of the host for the device, after which its own speed shows.
    Program("moe-8x32", "moe", 8, "the same with one layer", ["--size=medium", "--layers=1", "--batch=32", "--data=1"]),
    Program("pp-16", "pp", 16, "1F1B, 16 stages", ["--size=medium", "--layers=16", "--batch=64", "--micro-batches=16"], sandbox="5"),
    Program("moe-32", "moe", 32, "TP 2 x EP 4 x DP 4, one batch", ["--size=medium", "--layers=1", "--batch=8", "--ep=4", "--data=1"]),
    Program("ddp-64", "ddp", 64, "DDP", ["--size=medium", "--layers=1", "--batch=2"]),
    # A slice for each stage: some 15 minutes.
    Program("pp-64", "pp", 64, "1F1B, 64 stages", ["--size=medium", "--layers=64", "--batch=64", "--micro-batches=64"], sandbox="20"),
]


def new_row(program):
    return {"program": program.name, "about": program.about, "world": program.world, "sandbox": program.sandbox,
            "arguments": program.arguments, "steps": {}, "comparisons": {}, "failures": [], "clocks": {}}


def calibrated_values(logs):
    try:
        return {str(r): v["values"] for r, v in phase_numbers(logs, "calibrate").items()}
    except parse.Incomplete: # a rank of several slices
        return {}


def emulate_twice(launcher, row, program, count, arguments=(), per_node=8, measured=False):
    """Capture and calibration, then two emulations. Returns [(parsed sandbox rank, report), …]. measured: calibration with an
    assistant, so that operations have the durations of real NCCL here and not the profile's."""
    argv, trace, rank = program.argv(launcher, iterations=count), f"trace-time-{program.name}", int(program.sandbox)
    if measured: # real NCCL puts two ranks on one GPU only if they seem to be on different hosts
        argv = ["sh", "-c", 'NCCL_HOSTID=host$RANK exec "$@"', "sh", *argv]
    # Turns are keys in the store, new ones for each iteration: only those that were recorded can be waited for.
    recorded = count if program.file == "turns" else min(RECORDED, count)
    runs = []
    steps = [("capture", "capture", 0), ("calibrate", "calibrate", 1)] if measured else []
    steps += [("emulate-1", "emulate" if measured else "auto", 0), ("emulate-2", "emulate", 0)]
    for name, phase, assistants in steps:
        with Clocks(launcher) as clocks:
            got = step(row, name, lambda p=phase, n=name, a=assistants: launcher.prism(
                argv, f"{program.name}-{n}", 480, program.world, trace, p, program.sandbox, a, program.environment,
                arguments=[f"--iterations={recorded}", *arguments] if p != "emulate" or not measured else arguments, per_node=per_node))
        row["clocks"][name] = clocks.summary
        if not got:
            break
        if name == "calibrate":
            row["durations"] = calibrated_durations(launcher, trace)
            row["calibrated_values"] = calibrated_values(got["logs"])
        if not name.startswith("emulate"):
            continue
        try:
            runs.append((parse.complete(parse.read(got["text"]), [rank], count)[rank], got["report"]))
        except parse.Incomplete as error:
            row["failures"].append(f"{name}: {error}")
            break
    launcher.forget(trace)
    return runs


def timing(launcher, result):
    """Programs whose ranks never compute at the same time: full runs on the one GPU against emulation."""
    count = launcher.options.iterations
    for program in possible(launcher, choose(TURNS, launcher.options.programs)):
        row, rank, full = new_row(program), int(program.sandbox), []
        result["rows"].append(row)
        for n in (1, 2):
            argv = program.argv(launcher, iterations=count)
            with Clocks(launcher) as clocks:
                got = step(row, f"full-{n}", lambda a=argv, m=n: launcher.ranks(a, program.world, f"{program.name}-full-{m}", 120,
                                                                                program.environment))
            row["clocks"][f"full-{n}"] = clocks.summary
            if got:
                full.append(parse.complete(parse.read(got["text"]), range(program.world), count))
        # The full run's ranks are hosts of their own, so that real NCCL lets them share the GPU: nodes of one GPU, here too.
        # Two processes that share a GPU take turns of milliseconds while they talk, in the full run too: what a message takes so is
        # measured with an assistant beside the rank.
        runs = emulate_twice(launcher, row, program, count, per_node=1, measured=program.world > 1)
        row["full_seconds"] = [f[rank]["seconds"] for f in full]
        row["emulated_seconds"] = [r["seconds"] for r, _ in runs]
        row["full_values"] = [{str(r): f[r]["values"] for r in f} for f in full]
        row["emulated_values"] = [{str(rank): r["values"]} for r, _ in runs]
        row["reports"] = [report for _, report in runs]
        row["versions"] = full[0][rank]["versions"] if full else ""
        if full and runs:
            row["times"] = [compare.times(row["full_seconds"], s, WARM) for s in row["emulated_seconds"]]
            row["full_spread"] = [compare.spread(s, WARM) for s in row["full_seconds"]]
            row["emulated_spread"] = [compare.spread(s, WARM) for s in row["emulated_seconds"]]
            row["memory"] = compare.memory({rank: full[0][rank]}, {rank: runs[0][0]})
            for t in row["times"]:
                if t["error"] > ERROR_LIMIT:
                    row["failures"].append(f"iteration time off by {100 * t['error']:.2f} % (full {t['full_median']:.6f} s, "
                                           f"emulated {t['emulated_median']:.6f} s)")
            if row["memory"]["equal"] is False:
                row["failures"].append(f"max_memory_allocated differs: {row['memory']['bytes']}")
        row["passed"] = not row["failures"] and len(runs) == 2
        say(summary(row) + f"\n    {[round(100 * t['error'], 3) for t in row.get('times', [])]} %, clocks {row['clocks']}")
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])


def larger(launcher, result):
    """Larger worlds: emulated against predicted iterations. Self-consistency, not accuracy.

    Without the large payloads, of which 64 stages make gigabytes an iteration: numbers are not looked at here.
    """
    count = launcher.options.iterations
    for program in choose(LARGER, launcher.options.programs):
        row = new_row(program)
        result["rows"].append(row)
        runs = emulate_twice(launcher, row, program, count, ["--slices=1", "--payload=control"])
        row["emulated_seconds"] = [r["seconds"] for r, _ in runs]
        row["reports"] = [report for _, report in runs]
        row["errors"] = []
        for seconds, report in zip(row["emulated_seconds"], row["reports"]):
            predicted = (report.get("predicted_seconds") or {}).get("iterations") or []
            if len(predicted) < 2:
                row["failures"].append("the report has no prediction")
                continue
            wanted, got = predicted[-1], compare.steady(seconds, WARM)
            row["errors"].append(abs(got - wanted) / wanted)
            if row["errors"][-1] > PREDICTION_LIMIT:
                row["failures"].append(f"emulated {got:.6f} s, predicted {wanted:.6f} s: {100 * row['errors'][-1]:.2f} %")
        row["passed"] = not row["failures"] and len(runs) == 2
        say(summary(row) + f"\n    {[round(100 * e, 3) for e in row['errors']]} %")
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])


def world_row(launcher, row, program):
    """Capture folded, calibration of one rank of each class, emulation of one rank; minutes, memory, emulated against predicted."""
    count, trace = launcher.options.iterations, f"trace-{program.name}"
    row.update(representatives=32, minutes={}, host_peak_bytes={}, device_peak_bytes={})
    argv, reports = program.argv(launcher, iterations=count), {}
    recorded = [f"--iterations={min(RECORDED_WORLD, count)}", "--payload=control"]
    for phase, more in (("capture", [*layout(program), *recorded]), ("calibrate", ["--slices=1", *recorded]), ("emulate", [])):
        with memory.Watch(launcher) as watch:
            got = step(row, phase, lambda p=phase, m=more: launcher.prism(
                argv, f"{program.name}-{p}", 480, program.world, trace, p, program.sandbox, 0,
                {**STAGING, **program.environment, **({"PRISM_LOG": "debug"} if launcher.options.keep and p == "emulate" else {})},
                arguments=m)) # --keep: a word a gate, which takes some of prismd's time
        row["host_peak_bytes"][phase], row["device_peak_bytes"][phase] = watch.peak, watch.device_peak
        if not got:
            break
        row["minutes"][phase], reports[phase] = got["seconds"] / 60, got
    row["trace_bytes"] = folder_bytes(os.path.join(launcher.work, trace))
    if "emulate" in reports:
        row["report"] = reports["emulate"]["report"]
        ranks = parse.complete(parse.read(reports["emulate"]["text"]), [int(program.sandbox)], count)
        row["emulated_seconds"] = ranks[int(program.sandbox)]["seconds"]
        predicted = (row["report"].get("predicted_seconds") or {}).get("iterations") or []
        if len(predicted) < 2:
            row["failures"].append("the report has no prediction")
        else:
            wanted, mine = predicted[-1], compare.steady(row["emulated_seconds"], WARM)
            row["error"] = abs(mine - wanted) / wanted
            if row["error"] > PREDICTION_LIMIT:
                row["failures"].append(f"emulated {mine:.6f} s, predicted {wanted:.6f} s: {100 * row['error']:.2f} %")
    keep_trace(launcher, trace)
    launcher.forget(trace)
    row["passed"] = not row["failures"] and "error" in row


def world(launcher, result):
    """A world of thousands of ranks with 32 representatives, folded; the same at smaller sizes."""
    for program in choose(WORLDS, launcher.options.programs):
        row = new_row(program)
        result["rows"].append(row)
        world_row(launcher, row, program)
        say(summary(row) + f"\n    minutes {row['minutes']}, error {row.get('error')}")
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])


def profile_of(launcher, name):
    return json.loads(read(os.path.join(launcher.work, name)) or "{}")


def kernels(launcher, result):
    """Kernel durations of the sandbox rank in emulation against a plain run of the same rank's compute."""
    if launcher.options.soft:
        result["skipped"] = "needs PyTorch's profiler"
        return
    program = Program("ddp-4", "ddp", 4, "DistributedDataParallel, one rank of four", ["--size=medium", "--layers=2"], iterations=6)
    row, runs = new_row(program), []
    for n in (1, 2):
        argv = program.argv(launcher, f"--profile=plain{n}")
        step(row, f"plain-{n}", lambda a=argv, m=n: launcher.ranks(a, 1, f"kernels-plain-{m}", 90))
        runs.append(profile_of(launcher, f"plain{n}.0").get("kernels", {}))
    trace = os.path.join(launcher.work, "profiled")
    step(row, "emulate", lambda: launcher.prism(program.argv(launcher, f"--profile={trace}"), "kernels-emulate", 240, program.world,
                                                "trace-kernels"))
    emulated = profile_of(launcher, "profiled.0").get("kernels", {})
    launcher.forget("trace-kernels")
    own = [{k: v for k, v in r.items() if "nccl" not in k.lower()} for r in (*runs, emulated)]
    if not all(own):
        raise Failed("the profiler saw no kernels in one of the runs", [str(s) for s in row["steps"].values()])
    row["natural"] = compare.kernels(own[0], own[1])
    row["emulated"] = compare.kernels(own[0], own[2])
    row["only_in_emulation"] = sorted(set(own[2]) - set(own[0]))
    row["passed"] = not row["failures"] and row["emulated"]["share_within"] >= min(0.95, row["natural"]["share_within"])
    result["rows"].append(row)
    say(f"kernel time within the plain run's spread: {100 * row['emulated']['share_within']:.1f} % "
        f"(plain against plain {100 * row['natural']['share_within']:.1f} %)")
    result["passed"] = row["passed"]


COST = re.compile(r"cost rank (\d+): (\S+) +(\d+) ns a call \(p10 (\d+), p90 (\d+)")


def cost_lines(text):
    return [{"rank": int(m[1]), "call": m[2], "median_ns": int(m[3]), "p10_ns": int(m[4]), "p90_ns": int(m[5])}
            for m in COST.finditer(text)]


def call_cost(launcher, result):
    """Host nanoseconds a call, plainly and in each phase (gpu_cost)."""
    program = os.path.join(os.path.dirname(launcher.bin), "test", "gpu_cost")
    if not os.path.exists(program):
        result["errors"].append({"error": f"{program} is not there (make test-programs, tests/gpu/pack.sh)", "lines": []})
        return
    plain = launcher.ranks([program], 1, "cost-plain", 60)
    row = {"program": "gpu_cost", "plain": cost_lines(plain["text"])}
    got = launcher.prism([program], "cost-prism", 120, 2, "trace-cost")
    row["emulate"] = cost_lines(got["text"])
    row["capture"] = [c for n, t in got["logs"].items() if "capture" in n for c in cost_lines(t)]
    row["calibrate"] = [c for n, t in got["logs"].items() if "calibrate" in n for c in cost_lines(t)]
    launcher.forget("trace-cost")
    row["passed"] = bool(row["plain"] and row["emulate"])
    result["rows"].append(row)


def fill_cost(launcher, result):
    """What control mode makes on the device: right or not, driver calls, host and device time of 67 MB (gpu_fill)."""
    program = os.path.join(os.path.dirname(launcher.bin), "test", "gpu_fill")
    if not os.path.exists(program):
        result["errors"].append({"error": f"{program} is not there (make test-programs, tests/gpu/pack.sh)", "lines": []})
        return
    got = launcher.call([program], "fill", 120, check=False)
    lines = [json.loads(line) for line in got["text"].splitlines() if line.startswith("{")]
    wrong = [line["wrong"] for line in lines if "wrong" in line]
    result["rows"].append({"program": "gpu_fill", "lines": lines, "code": got["code"], "passed": got["code"] == 0 and wrong == [0, 0]})


def cost(launcher, result):
    """What the library costs: host time a call, iterations with recording, with torch.profiler; bytes an iteration."""
    call_cost(launcher, result)
    fill_cost(launcher, result)
    if launcher.options.soft:
        result["passed"] = all(r["passed"] for r in result["rows"])
        return
    program = Program("one", "one", 1, "a world of one rank", ["--size=medium", "--ddp"], iterations=20)
    row, argv = new_row(program), program.argv(launcher)
    wanted = {}
    for name, more in (("plain", []), ("profiler", ["--profile=cost"])):
        got = step(row, name, lambda n=name, m=more: launcher.ranks([*argv, *m], 1, f"cost-{n}", 90))
        wanted[name] = parse.read(got["text"]).get(0, {}).get("seconds", []) if got else []
    got = step(row, "prism", lambda: launcher.prism(argv, "cost-one", 200, 1, "trace-cost-one"))
    if got:
        wanted["off"] = parse.read(got["text"]).get(0, {}).get("seconds", [])
        wanted["on"] = phase_numbers(got["logs"], "calibrate").get(0, {}).get("seconds", [])
        trace = os.path.join(launcher.work, "trace-cost-one")
        parts = {n: folder_bytes(os.path.join(trace, n)) or os.path.getsize(os.path.join(trace, n)) for n in os.listdir(trace)}
        row["trace_bytes"] = parts
        row["trace_bytes_an_iteration"] = sum(v for n, v in parts.items() if n != "logs") / program.iterations
        launcher.forget("trace-cost-one")
    profile = profile_of(launcher, "cost.0")
    if profile:
        row["profiler_bytes_an_iteration"] = profile["trace_bytes"] / profile["iterations"]
    row["seconds"] = wanted
    row["medians"] = {n: compare.steady(s, WARM) for n, s in wanted.items() if len(s) > WARM}
    row["passed"] = not row["failures"] and {"plain", "on", "off", "profiler"} <= set(row["medians"])
    result["rows"].append(row)
    say(f"seconds an iteration: {row['medians']}")
    result["passed"] = all(r["passed"] for r in result["rows"])


def pacing(launcher, result):
    """Pacing error of every emulation of this visit, from its report."""
    alone = False
    for name, stage in launcher.results["stages"].items():
        for r in stage["rows"]:
            for report in [r.get("report"), *r.get("reports", [])]:
                alone |= bool(report) and report.get("world") == 1  # a rank alone has no gates
                if report and (report.get("pacing_us") or {}).get("gates"):
                    result["rows"].append({"stage": name, "program": r["program"], "transport": report.get("transport"),
                                           "pacing_us": report["pacing_us"]})
    result["passed"] = bool(result["rows"]) or alone
