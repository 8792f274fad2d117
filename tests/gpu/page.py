#!/usr/bin/env python3
"""A page for docs/measurements from the results of tests/gpu/run. Every number comes from the files.

  tests/gpu/page.py FILE... [--output docs/measurements/h200-pytorch.md]

FILE: results.json of tests/gpu/run, external.json of external.py, slurm.json of slurm.sh, or a visit's results.tar.gz. With
several files (visits) a stage is taken from the last file that has it; a program of a stage too.
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from harness.files import of_format, results  # noqa: E402


def number(value, digits=3):
    return "–" if value is None else f"{value:.{digits}g}" if isinstance(value, float) else f"{value:,}"


def percent(value, digits=2):
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def gigabytes(value):
    return "–" if value is None else f"{value / 1e9:.1f}"


def milliseconds(value):
    return "–" if value is None else f"{1e3 * value:.3f}"


def verdict(row):
    return f"skipped: {row['skipped']}" if row.get("skipped") else "passed" if row.get("passed") else "**FAILED**"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows] + [""]


def equality(row, name):
    c = row["comparisons"].get(name)
    if not c:
        return "–"
    if c["bits_equal"]:
        return "bits"
    return ("digits, " if c["digits_equal"] else "") + f"{c['largest_difference']:.1e}"


def took(row):
    return ", ".join(f"{n} {s['seconds']:.0f} s" for n, s in row["steps"].items() if s.get("seconds") is not None)


def failures(rows):
    lines = []
    for row in rows:
        for text in row.get("failures", []):
            lines.append(f"* {row['program']}: {text}")
        for name, s in row.get("steps", {}).items():
            if s.get("lines"):
                lines += [f"  {name} ended with:", "", *("      " + line for line in s["lines"][-6:]), ""]
    return [*lines, ""] if lines else []


def device(row):
    values = (row["numbers"].get("emulated") or {}).get(row["sandbox"].split(",")[0], {}).get("values", {})
    if "device_used" not in values:
        return "–"
    real = (row["numbers"].get("real") or {}).get("0", {}).get("values", {}) if row["world"] == 1 else {}
    return f"{number(values['device_used'])} of {number(values['device_total'])}" + \
        (f" ({number(real['device_used'])} of {number(real['device_total'])})" if "device_used" in real else "")


def functional(title):
    def make(stage):
        rows = [[r["program"], r["about"], r["world"], r["sandbox"], equality(r, "real-captured"), equality(r, "real-emulated"),
                 {True: "equal", False: "**differs**", None: "–"}[r.get("memory", {}).get("equal")], device(r), took(r), verdict(r)]
                for r in stage["rows"]]
        return [f"## {title}", "",
                "Losses of real NCCL against those captured (all ranks) and emulated (the sandbox rank): equal in every bit, in the "
                "six printed decimals, or the largest relative difference. Sums over more than two ranks are made in another order "
                "than NCCL's. Memory: torch.cuda.max_memory_allocated, full against emulated. Device: bytes in emulation (where one rank has the "
                "device to itself in full too, the full run's in brackets).", "",
                *table(["program", "", "world", "sandbox", "real, captured", "real, emulated", "memory", "device used of total", "took", ""], rows),
                *failures(stage["rows"])]
    return make


def overfull(stage):
    rows = []
    for r in stage["rows"]:
        s, bound = (r["switching"] or [None])[0] or {}, r.get("bound", {})
        rows.append([r["program"], r["world"], gigabytes(r.get("memory_bytes")), gigabytes(r.get("device_bytes")),
                     number(s.get("evictions")), gigabytes(s.get("bytes_out")), gigabytes(s.get("bytes_in")),
                     number((r["capture_seconds"] or [None])[0]), number(bound.get("seconds")), gigabytes(bound.get("must_move_bytes")), gigabytes(s.get("host_bytes")), gigabytes(r.get("host_peak_bytes")),
                     gigabytes(s.get("spilled_bytes")), equality(r, "other-order"),
                     equality(r, "accumulated-captured") + f" (allowed {r['tolerance']:.0e})", verdict(r)])
    return ["## Worlds that do not fit on the device", "",
            "Captured twice, with two orders of eviction, and run on real NCCL with the same batch in micro-steps. Iterations: of the first capture, "
            "without the start of its processes. Lower bound: every "
            "rank's compute alone on the device (where a rank can be run alone) plus the bytes moved at the speed of a plain pinned copy. Must "
            "move: what exceeds the device, once an iteration. GB are 1e9 bytes.", "",
            *table(["program", "ranks", "memory GB", "device GB", "evictions", "out GB", "in GB", "iterations s", "lower bound s",
                    "must move GB", "pinned GB", "host peak GB", "disk GB", "two orders", "against micro-steps", ""], rows), *failures(stage["rows"])]


def switch(stage):
    rows = [[r.get("program", ""), number(r.get("out_gb_per_second")), percent(r.get("out_share"), 0), number(r.get("in_gb_per_second")),
             percent(r.get("in_share"), 0), number(r.get("times_faster_than_checkpoint")), number(r.get("times_faster_than_restore")),
             verdict(r)] for r in stage["rows"] if "shares" not in r]
    plain = stage.get("copies", {}).get("gb_per_second", {})
    said = "; ".join(f"{n} {', '.join(f'{v:.1f}' for v in values)}" for n, values in plain.items())
    lines = ["## Speed of switching", ""]
    for r in (r for r in stage["rows"] if "shares" in r):
        of = [[how, *(number(v) for way in ("out", "in") for v in (r["moved"][way][how]["gb"], r["moved"][way][how]["gb_per_second"],
                                                                  r["plain"][(way if how == "alone" else f"both_{way}") + "_gb_per_s"])),
               *(percent(r["shares"][f"{way} {how}"], 0) for way in ("out", "in"))] for how in ("alone", "beside")]
        lines += [f"{r['program']}: four ranks of which two fit, against plain copies from and to as much pinned memory in the same run: {verdict(r)}. "
                  f"There and back {number(r.get('times_faster'))} times as fast as cuCheckpointProcess.", "",
                  *table(["the other way is busy", "out GB", "GB/s", "plain", "in GB", "GB/s", "plain", "out of plain", "in of plain"],
                         [["no" if o[0] == "alone" else "yes", *o[1:]] for o in of])]
    if not rows:
        return lines
    return [*lines, f"Whole captures; plain pinned copies in the same visit, GB/s: {said}.", "",
            *table(["program", "out GB/s", "of plain", "in GB/s", "of plain", "times cuCheckpointProcess out", "in", ""], rows)]


def clocks(rows):
    """The devices' clocks during steps (harness/clocks.py): a line a program."""
    lines = []
    for r in rows:
        seen = [f"{name} {c['sm_mhz_mean']:.0f} MHz, {percent(c['power_capped'], 0)} of the samples at the power limit, {c['watts_mean']:.0f} W"
                for name, c in (r.get("clocks") or {}).items() if c]
        if seen:
            lines.append(f"* {r['program']}, clocks while busy: {'; '.join(seen)}")
    return [*lines, ""] if lines else []


def timing(stage):
    rows = []
    for r in stage["rows"]:
        for n, t in enumerate(r.get("times", [])):
            full, mine = r["full_spread"][0], r["emulated_spread"][n]
            rows.append([r["program"] if n == 0 else "", r["world"], full["count"], milliseconds(t["full_median"]),
                         percent(t["natural_spread"]), f"{milliseconds(full['p5'])} – {milliseconds(full['p95'])}",
                         milliseconds(t["emulated_median"]), f"{milliseconds(mine['p5'])} – {milliseconds(mine['p95'])}",
                         percent(t["error"]), {True: "equal", False: "**differs**", None: "–"}[r["memory"]["equal"]]])
    return ["## Iteration time: full against emulated", "",
            "Ranks that never compute at the same time, in full on the one GPU (twice) and emulated (twice). Medians after the first "
            "iterations; p5 – p95 beside them.", "",
            *table(["program", "world", "iterations", "full ms", "run to run", "p5 – p95", "emulated ms", "p5 – p95", "error", "memory"],
                   rows), *clocks(stage["rows"]), *failures(stage["rows"])]


def larger(stage):
    rows = [[r["program"], r["about"], r["world"], ", ".join(percent(e) for e in r.get("errors", [])), took(r), verdict(r)]
            for r in stage["rows"]]
    return ["## Larger worlds: emulated against predicted", "", "Self-consistency, not accuracy: both come from the same graph.", "",
            *table(["program", "", "world", "difference of each run", "took", ""], rows), *failures(stage["rows"])]


def kernels(stage):
    lines = ["## Kernel durations", "", "torch.profiler: the sandbox rank in emulation against a plain run of the same compute.", ""]
    for r in stage["rows"]:
        if "emulated" not in r:
            lines += failures([r])
            continue
        lines += [f"Share of kernel time within the plain run's 5th to 95th percentile: {percent(r['emulated']['share_within'], 1)}; a "
                  f"second plain run: {percent(r['natural']['share_within'], 1)}.", ""]
        shown = [[k["kernel"][:60], k["count"][0], k["count"][1], number(float(k["median_us"][0]), 5), number(float(k["median_us"][1]), 5),
                  "yes" if k["within"] else "no"] for k in r["emulated"]["kernels"][:12]]
        lines += table(["kernel", "plain", "emulated", "plain us", "emulated us", "within"], shown)
    return lines


def exhaustion(stage):
    rows = [[r["first_failing_batch_full"], name, "yes" if e["fits_below"] else "**no**", "**yes**" if e["fits_there"] else "no",
             verdict(r)] for r in stage["rows"] for name, e in r["emulated"].items()]
    return ["## Where memory runs out", "", "A world of one rank; the smallest batch that the full run cannot hold.", "",
            *table(["batch that fails in full", "", "one less fits", "that one fits", ""], rows), *failures(stage["rows"])]


def repeat(stage):
    rows = [[r["program"], len(r["runs"]), "equal" if r["bits_equal"] else "**differ**", name,
             ", ".join(number(v) for v in values), "varies" if name in r["varies"] else "constant"]
            for r in stage["rows"] for name, values in r["memory"].items()]
    return ["## The real program several times", "", "On real NCCL, without Prism: what of its memory varies by itself.", "",
            *table(["program", "runs", "losses", "", "bytes of each run", ""], rows), *failures(stage["rows"])]


def vmm(stage):
    lines = ["## What switching rests on", "", "gpu_vmm: ranges exported to another process, which copies them.", ""]
    return lines + ["    " + json.dumps(m) for r in stage["rows"] for m in r["measured"]] + [""]


def world(stage):
    rows = []
    for r in stage["rows"]:
        minutes, host, device = r["minutes"], r["host_peak_bytes"], r["device_peak_bytes"]
        rows.append([r["program"], r["world"], r["representatives"], *(number(minutes.get(p)) for p in ("capture", "calibrate", "emulate")),
                     gigabytes(max(host.values(), default=None)), gigabytes(max(device.values(), default=None)),
                     number(r.get("trace_bytes")), percent(r.get("error")), verdict(r)])
    return ["## Folded worlds", "", "One rank of each class runs in capture; emulated against predicted iterations (self-consistency).", "",
            *table(["program", "ranks", "run in capture", "capture min", "calibrate min", "emulate min", "host GB", "device GB",
                    "trace bytes", "error", ""], rows), *failures(stage["rows"])]


def cost(stage):
    lines = ["## Cost of the library", ""]
    for r in stage["rows"]:
        if "plain" in r:
            calls = [[phase, c["call"], c["median_ns"], c["p10_ns"], c["p90_ns"]] for phase in ("plain", "capture", "calibrate", "emulate")
                     for c in r.get(phase, []) if c["rank"] == 0]
            lines += table(["", "call", "ns", "p10", "p90"], calls)
        elif r["program"] == "gpu_fill":
            lines += table(["67 MB filled by", "blocks", "driver calls", "host us", "device us"],
                           [[line["way"], line["blocks"], line["calls"], number(line["host_us"]), number(line["device_us"])]
                            for line in r["lines"] if "calls" in line])
        else:
            lines += table(["plain ms", "recording off ms", "recording on ms", "torch.profiler ms", "trace bytes an iteration",
                            "profiler's bytes an iteration"],
                           [[*(milliseconds(r["medians"].get(n)) for n in ("plain", "off", "on", "profiler")),
                             number(r.get("trace_bytes_an_iteration")), number(r.get("profiler_bytes_an_iteration"))]])
    return lines


def refusals(stage, title="What does not work"):
    rows = [[r["program"], r["code"], "works" if r["works"] else r["message"]] for r in stage["rows"]]
    return [f"## {title}", "", *table(["program", "exit code", "what the user sees"], rows)]


def pacing(stage):
    rows = [[r["stage"], r["program"], r["transport"], r["pacing_us"]["gates"],
             *(number(r["pacing_us"].get(q), 4) for q in ("p50", "p95", "p99", "max"))] for r in stage["rows"]]
    return ["## Pacing error", "", "Microseconds between an operation's intended end and its end.", "",
            *table(["stage", "program", "transport", "operations", "median", "p95", "p99", "max"], rows)]


def scripts(title):
    def make(stage):
        lines = [f"## {title}", ""]
        for r in stage["rows"]:
            lines += [f"{r['program']}: exit code {r['code']} after {r['seconds']:.0f} s.", "",
                      *("    " + line for line in r.get("lines", [])[-25:]), ""]
        return lines
    return make


SECTIONS = {
    "programs": functional("PyTorch programs"), "assistants": functional("Transport nccl"), "moetrain": scripts("moetrain"),
    "devices": scripts("Devices of a node"), "repeat": repeat, "vmm": vmm, "world": world,
    "graphs": lambda stage: refusals(stage, "CUDA graphs"),
    "overfull": overfull, "switch": switch, "timing": timing, "larger": larger, "kernels": kernels, "memory": exhaustion, "cost": cost,
    "pacing": pacing, "refusals": refusals, "external": scripts("Programs that no one here wrote"), "slurm": scripts("Slurm"),
}


def merge(files):
    """Stage name → (file, stage); rows of later files replace those of the same program."""
    stages = {}
    for name, result in files:
        for title, stage in result["stages"].items():
            if title in stages and title in ("programs", "assistants", "overfull", "switch", "timing", "larger", "world"):
                new = {r["program"] for r in stage["rows"]}
                kept = [r for r in stages[title][1]["rows"] if r["program"] not in new]
                stage = {**stage, "rows": kept + stage["rows"], "passed": all(r.get("passed") for r in kept + stage["rows"])}
            if stage["rows"] or title not in stages:
                stages[title] = (name, stage)
    return stages


def external_programs(files):
    rows = {}
    for name, found in files:
        # What had no time says nothing about a program that ran before.
        rows.update({r["program"]: [r["program"], r.get("world", ""), r["result"], number(r.get("seconds_real")), number(r.get("seconds_prism")),
                                    r.get("why") or r.get("why_not") or "", name]
                     for r in found["programs"] if r["result"] != "not possible" or r["program"] not in rows})
    counts = {result: sum(r[2] == result for r in rows.values()) for result in ("ok", "failed", "not possible")}
    return ["## Programs that no one here wrote", "", ", ".join(f"{n} {r}" for r, n in counts.items()) + ".", "",
            *table(["program", "ranks", "", "real s", "Prism s", "", "from"], list(rows.values()))] if rows else []


def slurm_jobs(files):
    lines = []
    for name, found in files[-1:]:
        lines += ["## A job under Slurm on this machine", "", f"{found['verdict']}, {found['seconds']} s ({name}).", "",
                  *("    " + line for line in found["sacct"]), ""]
    return lines


def page(files):
    """Markdown of [(file name, results), …]."""
    external, slurm = of_format(files, "prism-external-results"), of_format(files, "prism-slurm-results")
    files = of_format(files, "prism-gpu-results")
    last = files[-1][1]
    versions = sorted({r["versions"] for _, f in files for s in f["stages"].values() for r in s["rows"] if r.get("versions")})
    lines = ["# PyTorch on " + "; ".join(last["machine"].get("gpus") or ["no GPU"]), "",
             "Made by tests/gpu/page.py from " + ", ".join(f"{n} ({f['started']})" for n, f in files) + "; repeat it with tests/gpu/run.", "",
             *(f"* {v}" for v in versions), *(f"* {k}: {v}" for k, v in last["machine"].items() if k != "gpus"), ""]
    stages = merge(files)
    lines += table(["stage", "", "rows", "seconds", "from"],
                   [[n, verdict(s), len(s["rows"]), f"{s['seconds']:.0f}", f] for n, (f, s) in stages.items()])
    for name, make in SECTIONS.items():
        if name in stages:
            stage = stages[name][1]
            lines += make(stage) if stage["rows"] else [f"## {name}", "", "No result.", ""]
            for error in stage["errors"]:
                lines += [f"{error['error']}", "", *("    " + line for line in error["lines"]), ""]
    lines += external_programs(external) + slurm_jobs(slurm)
    return "\n".join(lines).rstrip() + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="+")
    p.add_argument("--output", default="docs/measurements/h200-pytorch.md")
    options = p.parse_args()
    files = results(options.results)
    if not of_format(files, "prism-gpu-results"):
        sys.exit("page.py: none of the files is of tests/gpu/run")
    with open(options.output, "w", encoding="utf-8") as out:
        out.write(page(files))
    print(options.output)


if __name__ == "__main__":
    main()
