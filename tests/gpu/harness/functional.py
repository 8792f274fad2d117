"""Stages about numbers: every program on real NCCL, captured, calibrated and emulated; and what is refused."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

from harness import compare, parse
from harness.launch import Failed, folder_bytes, phase_numbers, say
from harness.programs import PROGRAMS, choose


def sandbox_of(program):
    return [int(r) for r in program.sandbox.split(",")]


def step(row, name, work):
    """Run one step of a row; a failure is kept in the row. Returns the step's result or None."""
    try:
        result = work()
        row["steps"][name] = {"code": result["code"], "seconds": round(result["seconds"], 2), "log": result["log"]}
        return result
    except (Failed, parse.Incomplete) as error:
        row["steps"][name] = {"error": str(error), "lines": getattr(error, "lines", []),
                              "code": getattr(error, "code", None), "seconds": getattr(error, "seconds", None)}
        row["failures"].append(f"{name}: {error}")
        return None


def keep_numbers(ranks):
    return {str(r): {"loss": v["loss"], "bits": v["bits"], "norm": v["norm"], "seconds": v["seconds"], "values": v["values"]}
            for r, v in ranks.items()}


def same_numbers(row, name, wanted, got, program):
    verdict = compare.numbers(wanted, got, program.tolerance)
    row["comparisons"][name] = verdict
    if not verdict["within"]:
        row["failures"].append(f"{name}: losses differ by {verdict['largest_difference']:.1e} (allowed {program.tolerance:.0e}), "
                               f"first at rank, iteration {verdict['first_difference']}")


def program_row(launcher, program, steps, assistants=0):
    """Everything about one program. passed: no step failed and no comparison found a difference."""
    name = program.name + ("-nccl" if assistants else "")
    row = {"program": name, "about": program.about, "world": program.world, "sandbox": program.sandbox,
           "environment": program.environment, "assistants": assistants, "steps": {}, "comparisons": {}, "numbers": {},
           "failures": []}
    argv, trace = program.argv(launcher), f"trace-{name}"
    everyone, chosen = range(program.world), sandbox_of(program)
    real = captured = emulated = None
    if "real" in steps:
        if got := step(row, "real", lambda: launcher.ranks(argv, program.world, f"{name}-real", 150, program.environment)):
            try:
                real = parse.complete(parse.read(got["text"]), everyone, program.iterations)
                row["numbers"]["real"] = keep_numbers(real)
                row["versions"] = real[0]["versions"]
            except parse.Incomplete as error:
                row["failures"].append(f"real: {error}")
    if "capture" in steps:
        got = step(row, "capture", lambda: launcher.prism(argv, f"{name}-capture", 150, program.world, trace, "capture",
                                                          program.sandbox, assistants, program.environment))
        if got:
            row["trace_bytes"] = folder_bytes(os.path.join(launcher.work, trace))
            row["capture_report"] = got["report"]
            try:
                captured = parse.complete(phase_numbers(got["logs"], "capture"), everyone, program.iterations)
                row["numbers"]["captured"] = keep_numbers(captured)
            except parse.Incomplete as error:
                row["failures"].append(f"capture: {error}")
    if "emulate" in steps and ("capture" not in steps or captured):
        got = step(row, "emulate", lambda: launcher.prism(argv, f"{name}-emulate", 240, program.world, trace, "auto",
                                                          program.sandbox, assistants, program.environment))
        if got:
            row["report"] = got["report"]
            try:
                emulated = parse.complete(parse.read(got["text"]), chosen, program.iterations)
                row["numbers"]["emulated"] = keep_numbers(emulated)
            except parse.Incomplete as error:
                row["failures"].append(f"emulate: {error}")
    if real and captured:
        same_numbers(row, "real-captured", real, captured, program)
    if real and emulated:
        same_numbers(row, "real-emulated", real, emulated, program)
        row["memory"] = compare.memory(real, emulated)
        if row["memory"]["equal"] is False:
            row["failures"].append(f"memory: max_memory_allocated differs: {row['memory']['bytes']}")
    elif captured and emulated:
        same_numbers(row, "captured-emulated", captured, emulated, program)
    row["passed"] = not row["failures"]
    launcher.forget(trace)
    return row


def summary(row):
    took = {n: s.get("seconds") for n, s in row["steps"].items()}
    equal = {n: "bits" if c["bits_equal"] else "digits" if c["digits_equal"] else f"{c['largest_difference']:.1e}"
             for n, c in row["comparisons"].items()}
    text = f"{row['program']:20s} world {row['world']:2d} {'passed' if row['passed'] else 'FAILED'} {took} {equal}"
    for failure in row["failures"]:
        text += f"\n    {failure}"
    for s in row["steps"].values():
        text += "".join(f"\n    | {line}" for line in s.get("lines", [])[-6:])
    return text


def in_parallel(launcher, work, items):
    """The results of work(item), --jobs at a time; the stage's end holds in every thread."""
    end = launcher.local.end

    def one(item):
        launcher.local.end = end
        return work(item)

    with ThreadPoolExecutor(max(1, launcher.options.jobs)) as pool:
        return list(pool.map(one, items))


def possible(launcher, table):
    """The stand-in of rehearsals has no world of one rank that communicates."""
    return [p for p in table if p.world > 1 or not launcher.options.soft or launcher.blind]


def programs(launcher, result):
    """Every program: real NCCL, capture, calibration and emulation; numbers and memory."""
    def one(program):
        row = program_row(launcher, program, launcher.options.steps.split(","))
        say(summary(row))
        result["rows"].append(row)
        return row

    rows = in_parallel(launcher, one, possible(launcher, choose(PROGRAMS, launcher.options.programs)))
    result["passed"] = all(r["passed"] for r in rows)


def assistants(launcher, result):
    """Transport nccl: the sandbox rank and an assistant share the GPU. Numbers only, no timing."""
    names = launcher.options.programs or "ddp,fsdp2,pp,ep,objects,moe"
    def one(program):
        row = program_row(launcher, program, ["real", "capture", "emulate"], 1)
        if row.get("report") and row["report"].get("transport") != "nccl":
            row["failures"].append(f"transport is {row['report'].get('transport')}, not nccl")
            row["passed"] = False
        say(summary(row))
        result["rows"].append(row)
        return row

    result["passed"] = all(r["passed"] for r in in_parallel(launcher, one, choose(PROGRAMS, names)))


REPEATED = ("checkpoint",)
TIMES = 3


def repeat(launcher, result):
    """Programs whose peak memory differed, on real NCCL several times: does it vary by itself?"""
    for program in choose(PROGRAMS, ",".join(REPEATED)):
        row = {"program": program.name, "about": program.about, "world": program.world, "sandbox": program.sandbox, "steps": {},
               "comparisons": {}, "runs": [], "failures": []}
        for n in range(1, TIMES + 1):
            got = step(row, f"real-{n}", lambda m=n: launcher.ranks(program.argv(launcher), program.world,
                                                                    f"{program.name}-again-{m}", 90, program.environment))
            if got:
                ranks = parse.complete(parse.read(got["text"]), range(program.world), program.iterations)
                row["runs"].append({r: {"bits": v["bits"], "values": v["values"]} for r, v in ranks.items()})
        names = sorted({n for run in row["runs"] for rank in run.values() for n in rank["values"] if "memory" in n or "device" in n})
        row["memory"] = {f"rank {r} {n}": [run[r]["values"].get(n) for run in row["runs"]] for r in range(program.world) for n in names}
        row["varies"] = sorted(n for n, values in row["memory"].items() if len(set(values)) > 1)
        row["bits_equal"] = all(run[r]["bits"] == row["runs"][0][r]["bits"] for run in row["runs"] for r in run)
        # That it varies is an answer, not a failure.
        row["passed"] = not row["failures"] and len(row["runs"]) == TIMES
        result["rows"].append(row)
        say(f"{program.name}: {TIMES} runs, losses {'equal' if row['bits_equal'] else 'DIFFERENT'}; varies: {row['varies'] or 'nothing'}")
    result["passed"] = all(r["passed"] for r in result["rows"])


# Where the doctor fails: enough for numbers, and worth nothing for times.
NOMINAL = {
    "format": "prism-network", "version": 1, "links": {
        "intra_node": {"launch_seconds": 1e-5, "step_seconds": 2e-6, "bandwidth_bytes_per_second": 3e11, "eager_bytes": 65536,
                       "measured": False},
        "inter_node": {"launch_seconds": 1e-5, "step_seconds": 8e-6, "bandwidth_bytes_per_second": 4e10, "eager_bytes": 65536,
                       "measured": False}},
    "algorithms": {"tree_allreduce": True, "tree_rooted": True, "lockstep": False}, "fit_error": 0.0, "points": []}


def doctor(launcher, result):
    """Measure the network between two ranks as the plain runs have it; later stages use the profile."""
    path = os.path.join(launcher.out, "network.json")
    launcher.network = os.path.join(launcher.work, "nominal.json")
    with open(launcher.network, "w", encoding="utf-8") as out:
        json.dump(NOMINAL, out)
    launcher.facts["network"] = "nominal"
    got = launcher.ranks([os.path.join(launcher.bin, "prism"), "doctor", "--measure", f"--output={path}"], 2, "doctor", 120)
    with open(path, encoding="utf-8") as text:
        profile = json.load(text)
    launcher.network, launcher.facts["network"] = path, "measured"
    result["rows"].append({"program": "prism doctor --measure", "seconds": got["seconds"], "log": got["log"],
                           "links": profile.get("links"), "fit_error": profile.get("fit_error"), "passed": True})
    result["passed"] = True
