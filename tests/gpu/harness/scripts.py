"""Stages that other scripts do, and what is refused."""

import os
import re

from harness import parse
from harness.launch import say
from harness.memory import TOOLS

HERE = os.path.dirname(TOOLS)

FOLDED = ["--layout=tp:2,dp:2", "--fold=dp"]
# Name, world, exit code, what must be in the message, options.
REFUSALS = [
    ("graph", 2, 69, r"AllReduce is being captured into a CUDA graph", []),
    ("several", 2, 69, r"ncclCommInitAll over 2 devices", []),
    ("gloo", 2, 69, r"the program has a Gloo process group .* absent ranks", []),
    ("gloo", 4, 69, r"makes a Gloo process group .* folded away", FOLDED),
    ("none", 2, 66, r"ended without calling NCCL", []),
]
GRAPHS = [("plain", 0, r"graphs: ok"), ("nccl", 69, r"AllReduce is being captured into a CUDA graph")]


def last_word(text):
    """Prism's last line; names of files, which may have any word in them, are none."""
    lines = [line for line in text.splitlines() if line.startswith("prism: ") and "its output ends with" not in line]
    return lines[-1] if lines else ""


def refusals(launcher, result):
    """What does not work, each with the message that the user gets."""
    for what, world, code, wanted, options in REFUSALS:
        name = what + ("-folded" if options else "")
        if launcher.blind and what == "graph":
            say("graph: software GPUs capture nothing for PyTorch")
            continue
        argv = [launcher.options.python, os.path.join(TOOLS, "refused.py"), what]
        got = launcher.prism(argv, f"refused-{name}", 60, world, f"trace-refused-{name}", check=False, arguments=options)
        row = {"program": name, "code": got["code"], "seconds": got["seconds"], "message": last_word(got["text"]),
               "lines": parse.last_lines(got["text"])}
        row["works"] = got["code"] == 0
        row["passed"] = row["works"] or (got["code"] == code and bool(re.search(wanted, row["message"])))
        result["rows"].append(row)
        launcher.forget(f"trace-refused-{name}")
        say(f"{name}: exit code {row['code']}: {row['message']}")
    result["passed"] = all(r["passed"] for r in result["rows"])


def graphs(launcher, result):
    """CUDA graphs: without NCCL inside they work in every phase, with it they are refused."""
    if launcher.options.soft:
        result["skipped"] = "needs PyTorch"
        return
    for name, code, wanted in GRAPHS:
        argv = [launcher.options.python, os.path.join(HERE, "graphs.py"), name]
        got = launcher.prism(argv, f"graphs-{name}", 100, 2, f"trace-graphs-{name}", check=False)
        text = last_word(got["text"]) if code else got["text"] + "".join(got["logs"].values())
        lines = [line for line in text.splitlines() if re.search(wanted, line)]
        result["rows"].append({"program": f"graphs.py {name}", "code": got["code"], "seconds": got["seconds"], "works": got["code"] == 0,
                               "message": lines[-1] if lines else "", "lines": parse.last_lines(got["text"]),
                               "passed": got["code"] == code and bool(lines)})
        launcher.forget(f"trace-graphs-{name}")
        say(f"graphs {name}: exit code {got['code']}: {lines[-1:]}")
    result["passed"] = all(r["passed"] for r in result["rows"])


def script(launcher, result, name, argv, seconds):
    """One script; its folder of results is OUT/NAME."""
    out = os.path.join(launcher.out, name)
    os.makedirs(out, exist_ok=True)
    if not os.path.exists(argv[0]):
        result["errors"].append({"error": f"there is no {os.path.relpath(argv[0], HERE)}", "lines": []})
        return
    visible = {} if launcher.options.soft else {"CUDA_VISIBLE_DEVICES": ",".join(launcher.devices)}
    got = launcher.call(argv, name, seconds, {"PYTHON": launcher.options.python, **visible}, check=False)
    row = {"program": name, "code": got["code"], "seconds": got["seconds"], "lines": parse.last_lines(got["text"], 60),
           "passed": got["code"] == 0}
    result["rows"].append(row)
    say(f"{name}: exit code {got['code']}" + "".join(f"\n    | {line}" for line in row["lines"][-12:]))


def moetrain(launcher, result):
    """moetrain's CUDA kernels plainly and under Prism, paced and nccl."""
    for name in ("moetrain", "nccl"):
        out = os.path.join(launcher.out, name)
        script(launcher, result, name, [os.path.join(HERE, name + ".sh"), launcher.bin, launcher.lib, out], 280)
    result["passed"] = bool(result["rows"]) and all(
        r["passed"] and not re.search(r"DIFFERENT|: no$|rc=[1-9]", "\n".join(r["lines"]), re.M) for r in result["rows"])


def devices(launcher, result):
    """A node's devices as a logical rank sees them."""
    if launcher.options.soft:
        result["skipped"] = "needs PyTorch"
        return
    argv = [os.path.join(HERE, "devices.sh"), launcher.bin, launcher.lib, os.path.join(launcher.out, "devices")]
    script(launcher, result, "devices", argv, 200)
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])


def external(launcher, result):
    """Programs that no one here wrote, from --external."""
    argv = [os.path.join(HERE, "external.py"), "--bin", launcher.bin, "--lib", launcher.lib, "--out",
            os.path.join(launcher.out, "external"), "--python", launcher.options.python, "--sources", launcher.options.external, "--dep", launcher.dep,
            "--network", launcher.network or "", "--jobs", str(launcher.options.jobs), "--programs", launcher.options.programs,
            "--budget", str(int(launcher.limit(570)))]
    if launcher.blind:
        argv += ["--soft", "--blind", launcher.options.blind]
    script(launcher, result, "external", argv, 590)
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])


def slurm(launcher, result):
    """A private Slurm on this machine's GPU, with Prism's plugins."""
    argv = [os.path.join(HERE, "slurm.sh"), launcher.bin, launcher.lib, os.path.join(launcher.out, "slurm"),
            "--limit", str(int(launcher.limit(285)))]
    script(launcher, result, "slurm", argv, 300)
    result["passed"] = bool(result["rows"]) and all(r["passed"] for r in result["rows"])
