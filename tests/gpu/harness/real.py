"""Emulation against real runs on as many GPUs as the program has ranks: what tests/gpu/two and tests/gpu/eight share.

A kind says which programs, on how many GPUs, and with how many of them they are emulated. Every case runs in full twice,
is captured on one GPU or two, calibrated with an assistant, and emulated in each of the kind's ways. The results are
rewritten after every step; tests/gpu/real_table makes the page.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from harness import compare, memory, parse
from harness.launch import Failed, Launcher, NoTime, calibrated_durations, phase_numbers, read, rehearsal_python, say
from harness.programs import FOLDER, Program

HERE = os.path.dirname(FOLDER)
PROFILED_ITERATIONS = 12
ROOMY = 64 << 30
# What a way of emulating says besides how many assistants it has. control: large floating-point results are made on the device, as
# the bus does not bring gigabytes in an iteration's time; numbers are not the program's then.
MORE = {"control": ["--payload=control"]}


def work_folder():
    """Traces of programs that sum gigabytes an iteration have as many, and a disk would set the pace: in memory where there is room."""
    memory = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    roomy = memory and memory.f_bavail * memory.f_frsize >= ROOMY and os.access("/dev/shm", os.W_OK)
    return tempfile.mkdtemp(prefix="prism-real-", dir="/dev/shm" if roomy else None)


@dataclass
class Case:
    """captured: iterations that the trace holds; 0: all, where sizes come from data and the last does not stand for all. most:
    iterations; a trace of all holds gigabytes of each."""

    program: Program
    captured: int = 6
    most: int = 1000


@dataclass
class Kind:
    name: str
    about: str
    gpus: int
    sandbox: str
    cases: dict
    # Way of emulating → assistants. GPUs: the sandbox ranks and these.
    ways: dict
    calibrated_on: int
    captured_on: int = 1
    stages: tuple = ("ballast", "programs", "kernels")
    ballast: str = "2"
    goal: tuple = (0.005, 0.02)
    shared: Program = None
    limit: Program = None
    profiled: list = field(default_factory=list)

    def devices(self, way):
        return len(self.sandbox.split(",")) + self.ways[way]


def case(name, file, world, about, *arguments, captured=6, most=1000):
    return Case(Program(name, file, world, about, list(arguments)), captured, most)


def cases(*rows):
    return {c.program.name: c for c in rows}


class Real:
    def __init__(self, kind, options):
        self.kind, self.o = kind, options
        options.out = os.path.abspath(options.out)
        os.makedirs(options.out, exist_ok=True)
        self.file = os.path.join(options.out, kind.name + ".json")
        self.launcher = Launcher(options, options.out)
        if len(self.launcher.devices) < kind.gpus:
            raise Failed(f"{kind.name} needs {kind.gpus} GPUs, and CUDA_VISIBLE_DEVICES has {len(self.launcher.devices)}")
        self.test = os.path.join(os.path.dirname(options.bin), "test")
        self.results = {"format": "prism-real-results", "version": 2, "kind": kind.name, "about": kind.about, "sandbox": kind.sandbox,
                        "goal": kind.goal, "programs": {}, "minutes": 0}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as text:
                self.results = json.load(text)
        self.earlier, self.began = self.results.get("minutes", 0), time.monotonic()

    def save(self):
        self.results["minutes"] = self.earlier + (time.monotonic() - self.began) / 60
        with open(self.file + ".new", "w", encoding="utf-8") as text:
            json.dump(self.results, text, indent=1)
        os.replace(self.file + ".new", self.file)

    def machine(self):
        try:
            smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True,
                                 capture_output=True, text=True, timeout=30).stdout.strip().splitlines()
        except (OSError, subprocess.SubprocessError):
            smi = []
        self.results.update(gpus=smi or ["software GPU"] * self.kind.gpus, date=time.strftime("%Y-%m-%d"), rehearsal=self.o.soft)

    @staticmethod
    def ran(got, profiles=None):
        """What is kept of a run: exit code (124: out of time), minutes, what its ranks printed, its end where it failed."""
        kept = {"exit_code": 124 if got["code"] == -1 else got["code"], "wall_seconds": got["seconds"], "profiles": profiles or {}}
        try:
            kept["ranks"] = {str(r): v for r, v in parse.read(got["text"]).items()}
        except parse.Incomplete as error:
            kept.update(ranks={}, exit_code=kept["exit_code"] or 1, output_tail=str(error))
        if got.get("report"):
            kept["report"] = got["report"]
        if kept["exit_code"]:
            kept.setdefault("output_tail", "\n".join(parse.last_lines(got["text"], 8)))
        return kept

    def taken_profiles(self, prefix):
        """Of the sandbox ranks' profiles, which are removed. Empty where there is none (rehearsals)."""
        found = {}
        for rank in self.kind.sandbox.split(","):
            path = f"{prefix}.{rank}"
            if prefix and os.path.exists(path):
                found[rank] = compare.profile(json.loads(read(path)))
                os.unlink(path)
        return found

    # --- stages ---

    def network(self):
        path = os.path.join(self.o.out, "network.json")
        if self.o.network:
            shutil.copy(self.o.network, path)
        else:
            got = self.launcher.ranks([os.path.join(self.o.bin, "prism"), "doctor", "--measure", f"--output={path}"], self.kind.gpus,
                                      "network", 90, one_node=True)
            self.results["network"] = {"exit_code": got["code"], "seconds": got["seconds"]}
        self.launcher.network = path
        self.save()

    def measured_ballast(self, name, sizes, key):
        """A table of what communicators cost; it is used by the programs that run after it."""
        path = os.path.join(self.o.out, name + ".json")
        visible = {} if self.o.soft else {"CUDA_VISIBLE_DEVICES": ",".join(self.launcher.devices)}
        got = self.launcher.call([sys.executable, os.path.join(HERE, "ballast.py"), "--helper", os.path.join(self.test, "ballast"),
                                  "--output", path, "--sizes", sizes, "--devices", str(self.kind.gpus), "--check"], name, 150, visible, check=False)
        self.results[key] = {"exit_code": got["code"], "seconds": got["seconds"],
                             "table": json.loads(read(path) or "null"), "lines": parse.last_lines(got["text"])}
        self.save()

    def ballast(self):
        self.measured_ballast("ballast", self.kind.ballast, "ballast")

    def ballast_table(self):
        self.measured_ballast("ballast-table", "2,4" if self.o.soft else "2,3,4,8,16", "ballast_table")

    def environment(self, program):
        path = os.path.join(self.o.out, "ballast.json")
        return {**program.environment, **({"PRISM_BALLAST": path} if os.path.exists(path) else {})}

    def programs(self):
        for name in self.o.programs:
            self.case(name, self.kind.cases[name])

    def kernels(self):
        for name in self.o.profiled:
            self.case(name, self.kind.cases[name], profiled=True)

    def case(self, name, given, profiled=False):
        program, count = given.program, PROFILED_ITERATIONS if profiled else min(given.most, self.o.iterations)
        prefix, label = "", name
        if profiled:
            label = name + "-profiled"
            prefix = os.path.join(self.launcher.work, "profile-" + name)
        argv = program.argv(self.launcher, *([f"--profile={prefix}"] if profiled else []), iterations=count)
        captured = 0 if profiled or given.captured >= count else given.captured
        row = {"about": program.about, "command": [os.path.basename(argv[1]), *argv[2:]], "world": program.world, "captured_iterations": captured or count,
               "profiled": profiled, "full": []}
        self.results["programs"][label] = row
        for n in (1, 2):
            got = self.launcher.ranks(argv, program.world, f"{label}-full{n}", 120, program.environment, check=False, one_node=True)
            row["full"].append(self.ran(got, self.taken_profiles(prefix)))
            self.save()
            if got["code"]:
                return
        trace = f"trace-{label}"
        self.launcher.forget(trace)
        recorded = [f"--iterations={captured}"] if captured else []
        most = self.kind.calibrated_on
        steps = [("capture", "capture", self.kind.captured_on, 0), ("calibrate", "calibrate", most, 1)]
        steps += [(way, "emulate", self.kind.devices(way), assistants) for way, assistants in self.kind.ways.items()]
        for step, phase, devices, assistants in steps:
            got = self.launcher.prism(argv, f"{label}-{step}", 150, program.world, trace, phase, self.kind.sandbox, assistants,
                                      self.environment(program), check=False, devices=devices,
                                      arguments=recorded if phase != "emulate" else MORE.get(step, []))
            row[step] = {**self.ran(got, self.taken_profiles(prefix)), "devices": devices, "assistants": assistants}
            if phase == "calibrate":
                row[step].update(ranks={}, seconds=self.calibrated_seconds(got), durations=calibrated_durations(self.launcher, trace))
            self.save()
            if got["code"] and phase != "emulate":
                break
        self.launcher.forget(trace)

    @staticmethod
    def calibrated_seconds(got):
        """Of the iterations that the ranks went through in calibration, each in its slice."""
        try:
            return {str(r): v["seconds"] for r, v in phase_numbers(got["logs"], "calibrate").items()}
        except parse.Incomplete:
            return {}

    def pace(self):
        """How exactly an operation's end is set from the assistant's side (test/pace_arm)."""
        self.results["pace"] = []
        for communicators in ((1, 4) if self.o.soft else (1, 40)):
            got = self.launcher.call([os.path.join(self.test, "pace_arm"), str(communicators), "5" if self.o.soft else "200"],
                                     f"pace-{communicators}", 100, check=False)
            self.results["pace"].append({"communicators": communicators, "exit_code": got["code"],
                                         "rows": [json.loads(x) for x in got["text"].splitlines() if x.startswith("{")]})
            self.save()

    def shared(self):
        """Many ranks of one communicator on these GPUs (distinct NCCL_HOSTID) in full, and one of them emulated: numbers and
        memory. Not times: the ranks share devices and talk over sockets."""
        program = self.kind.shared
        argv = program.argv(self.launcher)
        result = self.results["shared"] = {"world": program.world, "gpus": self.kind.gpus, "command": [os.path.basename(argv[1]), *argv[2:]]}
        result["full"] = self.ran(self.launcher.ranks(argv, program.world, "shared-full", 120, program.environment, check=False))
        self.save()
        got = self.launcher.prism(argv, "shared-nccl", 150, program.world, "trace-shared", "auto", "0", 1, self.environment(program),
                                  check=False, devices=self.kind.gpus, arguments=["--slices=1"])
        result["nccl"] = self.ran(got)
        self.launcher.forget("trace-shared")
        self.save()

    def memory(self):
        """The batch at which the full run of a world runs out of memory, and whether the emulations stop there too."""
        if self.o.soft:
            self.results["limit"] = {"skipped": "needs PyTorch"}
            return
        file = os.path.join(self.launcher.work, "batch")
        with open(file, "w", encoding="ascii") as text:
            text.write("4\n")
        program = self.kind.limit
        argv = program.argv(self.launcher, f"--batch-from={file}")
        environment = self.environment(program)
        self.results["limit"] = {"program": program.name, "world": program.world}

        def emulate(phase, way):
            return self.launcher.prism(argv, f"limit-{way}-{phase}", 120, program.world, "trace-limit", phase, self.kind.sandbox,
                                       self.kind.ways[way], environment, check=phase != "emulate", devices=self.kind.devices(way),
                                       arguments=MORE.get(way, []) if phase == "emulate" else [])

        # A device for each rank: capture holds what the program holds.
        self.launcher.prism(argv, "limit-capture", 120, program.world, "trace-limit", "capture", self.kind.sandbox, 0, environment,
                            devices=program.world)
        emulate("calibrate", "nccl")
        full = lambda: self.launcher.ranks(argv, program.world, "limit-full", 60, program.environment, check=False, one_node=True)  # noqa: E731
        row = memory.limit_row(file, full, {way: (lambda w=way: emulate("emulate", w)) for way in self.kind.ways})
        self.results["limit"].update(row)
        self.launcher.forget("trace-limit")
        self.save()

    def run(self):
        self.machine()
        work = {"ballast": self.ballast, "programs": self.programs, "kernels": self.kernels, "pace": self.pace, "shared": self.shared,
                "memory": self.memory, "ballast-table": self.ballast_table}
        self.results.pop("out_of_time", None)
        errors = self.results["errors"] = []
        try:
            if set(self.o.stages) != {"pace"}:
                self.network()
            for name in self.o.stages:
                say(f"== {name}, {self.launcher.left():.0f} s left")
                try:
                    work[name]()
                except NoTime:
                    raise
                except Failed as error:
                    # One stage's failure must not cost the others' results.
                    errors.append({"stage": name, "error": str(error), "lines": error.lines})
                    say(f"   {error}" + "".join(f"\n    | {line}" for line in error.lines))
        except NoTime:
            say("the time is over; what was done is kept")
            self.results["out_of_time"] = True
        except Failed as error:
            errors.append({"stage": "network", "error": str(error), "lines": error.lines})
        self.save()


STAGES = ("ballast", "programs", "kernels", "pace", "shared", "memory", "ballast-table")


def main(kinds, about):
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", help="has bin, lib and test (a built tree's folder, or what tests/gpu/pack_all made)")
    p.add_argument("out", help="results; a later call with the same folder adds to what is there")
    p.add_argument("--stages", default="", help=f"comma-separated of {', '.join(STAGES)}; default: those of the kind")
    p.add_argument("--programs", default="", help="comma-separated; default all")
    p.add_argument("--ways", default="", help="of emulating, comma-separated; default all of the kind")
    p.add_argument("--profiled", default="", help="programs that the stage kernels runs with torch.profiler")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--iterations", type=int, default=50)
    p.add_argument("--network", default="", help="a profile; default: measured")
    p.add_argument("--minutes", type=float, default=9.5)
    p.add_argument("--rehearse", dest="soft", action="store_true", help="on software GPUs, tests/gpu/stand_in in place of PyTorch")
    p.add_argument("--blind", default="", metavar="PYTHON", help="with --rehearse: a Python with PyTorch for CUDA (tests/gpu/blind)")
    p.add_argument("--keep", action="store_true", help="keep traces")
    if len(kinds) > 1:
        p.add_argument("--gpus", type=int, choices=sorted(kinds), default=max(kinds))
    o = p.parse_args()
    kind = kinds[getattr(o, "gpus", next(iter(kinds)))]
    o.gpus = kind.gpus
    o.bin, o.lib, o.dep = (os.path.join(os.path.abspath(o.build), part) for part in ("bin", "lib", "dep"))
    o.dep = o.dep if os.path.isdir(o.dep) else ""
    o.network = os.path.abspath(o.network) if o.network else ""
    o.work, o.budget = work_folder(), o.minutes * 60
    if o.soft:
        o.python = rehearsal_python(o)
    o.stages = [s for s in o.stages.split(",") if s] or list(kind.stages)
    o.programs = [n for n in o.programs.split(",") if n] or list(kind.cases)
    o.profiled = [n for n in o.profiled.split(",") if n] or kind.profiled
    ways = [w for w in o.ways.split(",") if w] or list(kind.ways)
    for name, known in [(s, STAGES) for s in o.stages] + [(w, kind.ways) for w in ways] + [(n, kind.cases) for n in (*o.programs, *o.profiled)]:
        if name not in known:
            print(f"{kind.name}: no '{name}'; there are {', '.join(known)}", file=sys.stderr)
            return 64
    kind.ways = {w: kind.ways[w] for w in ways}
    try:
        real = Real(kind, o)
    except Failed as error:
        print(f"{kind.name}: {error}", file=sys.stderr)
        return 64
    launcher = real.launcher

    def leave(*_):
        real.results["out_of_time"] = True
        real.save()
        launcher.stop()
        shutil.rmtree(o.work, ignore_errors=True)
        os._exit(143)

    signal.signal(signal.SIGTERM, leave)
    try:
        real.run()
    finally:
        shutil.rmtree(o.work, ignore_errors=True)
    return subprocess.run([sys.executable, os.path.join(HERE, "real_table"), real.file], check=False).returncode
