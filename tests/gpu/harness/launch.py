"""Start programs: plainly on real NCCL, or under Prism; with time limits, and nothing left behind."""

import base64
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time

from harness import parse
from harness.autopsy import autopsy

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LIMIT_GRACE = 5.0


class Failed(Exception):
    """A step did not work; lines: the end of its output."""

    def __init__(self, text, lines=()):
        super().__init__(text)
        self.lines = list(lines)


class NoTime(Failed):
    """The visit or the stage is over."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            return text.read()
    except OSError:
        return ""


def nvidia_folders(python):
    """Where PyTorch's packages keep NCCL and the CUDA runtime: for programs that are not PyTorch's."""
    code = "import glob, sysconfig; print('\\n'.join(glob.glob(sysconfig.get_paths()['purelib'] + '/nvidia/*/lib')))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return []


def end_group(children):
    """prismd and its ranks clean up after SIGTERM; what stays is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in children:
            if child.poll() is None:
                try:
                    os.killpg(child.pid, number)
                except ProcessLookupError:
                    pass
        end = time.monotonic() + LIMIT_GRACE
        for child in children:
            try:
                child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass


def devices_of(count):
    """The GPUs that this run has: those its caller made visible, else the first `count`."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [d.strip() for d in visible.split(",")] if visible else [str(n) for n in range(count)]


def rehearsal_python(options):
    """What runs the programs on software GPUs: the stand-in, or (--blind) PyTorch whose kernels do nothing."""
    return os.path.join(HERE, "blind" if options.blind else "stand_in", "python3")


class Launcher:
    """Where everything is, and until when it may run."""

    def __init__(self, options, out):
        self.options, self.out = options, out
        self.bin, self.lib, self.dep = options.bin, options.lib, options.dep
        self.logs = os.path.join(out, "logs")
        self.work = os.path.join(options.work, "work")
        os.makedirs(self.logs, exist_ok=True)
        os.makedirs(self.work, exist_ok=True)
        self.end = time.monotonic() + options.budget
        self.local = threading.local()
        self.network = options.network
        self.devices = devices_of(options.gpus)
        self.nvidia = [] if options.soft else nvidia_folders(options.python)
        self.serial, self.lock = 0, threading.Lock()
        self.running = set()
        self.blind = self.blind_environment() if options.soft and options.blind else {}
        # What one stage measured and others use; the results so far.
        self.facts, self.results = {}, {"stages": {}}

    # Time: the whole visit's, and the stage's that this thread works for.
    def left(self):
        return min(self.end, getattr(self.local, "end", self.end)) - time.monotonic()

    def limit(self, seconds):
        left = self.left() - LIMIT_GRACE
        if left < 2:
            raise NoTime("no time left for it")
        return min(seconds, left)

    def stop(self):
        """No more time: what runs is ended, and nothing starts any more."""
        self.end = time.monotonic()
        end_group(list(self.running))

    def start(self, *arguments, **keywords):
        child = subprocess.Popen(*arguments, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True, **keywords)
        self.running.add(child)
        return child

    def finish(self, children):
        end_group(children)
        self.running.difference_update(children)

    def blind_environment(self):
        """tests/gpu/blind: its library is made here, since the machine that runs it has no toolkit."""
        library = os.path.join(self.work, "libblind.so")
        subprocess.run(["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "blind", "blind.c"), "-ldl"], check=True)
        return {"BLIND_LIB": library, "BLIND_SOFTGPU": os.path.join(self.lib, "softgpu"), "BLIND_PYTHON": self.options.blind}

    def environment(self, extra=None):
        drop = ("PRISM_", "SLURM_", "SOFTGPU_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_")
        keep = ("PRISM_LOG", "PRISM_STAGING", "PRISM_TEST_MARK")
        env = {k: v for k, v in os.environ.items() if k in keep or not k.startswith(drop)}
        path = [p for p in (self.dep, env.get("LD_LIBRARY_PATH")) if p]
        if self.options.soft:
            path.insert(0, os.path.join(self.lib, "softgpu"))
            env["SOFTGPU_DIR"] = os.path.join(self.work, "softgpu")
            env["SOFTGPU_TIME_SCALE"] = "0.2"
            env["MOETRAIN"] = os.path.join(self.bin, "moetrain")
            env.update(self.blind)
            os.makedirs(env["SOFTGPU_DIR"], mode=0o700, exist_ok=True)
        path += self.nvidia
        if path:
            env["LD_LIBRARY_PATH"] = ":".join(path)
        env.update(NCCL_NVLS_ENABLE="0", NCCL_SOCKET_IFNAME="lo", PYTHONUNBUFFERED="1")
        env["PRISM_LIBRARY"] = os.path.join(self.lib, "libprism.so")
        env.update(extra or {})
        return env

    def log(self, name):
        with self.lock:
            self.serial += 1
            return os.path.join(self.logs, f"{self.serial:03d}-{name}.log")

    def call(self, argv, name, seconds, extra=None, cwd=None, check=True, ranks=lambda: ()):
        """One command to its end: {"code", "seconds", "text", "log"}. code -1: it ran out of time; what it did then is beside its log,
        with the ends of the files that ranks() names."""
        log, seconds, start = self.log(name), self.limit(seconds), time.monotonic()
        with open(log, "w", encoding="utf-8") as out:
            child = self.start(argv, env=self.environment(extra), cwd=cwd or self.work, stdout=out)
            try:
                code = child.wait(seconds)
            except subprocess.TimeoutExpired:
                code = -1
                with open(log.removesuffix(".log") + "-autopsy.log", "w", encoding="utf-8") as late:
                    late.write(autopsy(child.pid, ranks()))
            finally:
                self.finish([child])
        text = read(log)
        result = {"code": code, "seconds": time.monotonic() - start, "text": text, "log": os.path.basename(log)}
        if check and code != 0:
            what = f"out of time after {seconds:.0f} s" if code == -1 else f"exit code {code}"
            raise Failed(f"{name}: {what}", parse.last_lines(text))
        return result

    def ranks(self, argv, world, name, seconds, extra=None, check=True, one_node=False):
        """A plain run: world processes on real NCCL. As on world nodes of one GPU each, since real NCCL puts several ranks on one
        GPU only if they seem to be on different hosts; or, one_node, as on one node, a GPU for each."""
        seconds, start, port = self.limit(seconds), time.monotonic(), free_port()
        log, children, codes = self.log(name), [], {}
        with open(log, "w", encoding="utf-8") as out:
            for rank in range(world):
                env = self.environment({"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
                                        "MASTER_PORT": str(port), **(extra or {})})
                if not one_node:
                    env["NCCL_HOSTID"] = f"host{rank}"
                if one_node and not self.options.soft:
                    env.update(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world),
                               CUDA_VISIBLE_DEVICES=",".join(self.devices[:world]))
                elif self.options.soft:
                    env.update(LOCAL_RANK=str(rank % 8), SOFTGPU_NODE=str(rank // 8))
                else:
                    env.update(LOCAL_RANK="0", CUDA_VISIBLE_DEVICES=self.devices[rank % len(self.devices)])
                children.append(self.start(argv, env=env, cwd=self.work, stdout=out))
            try:
                while len(codes) < world and time.monotonic() - start < seconds:
                    for rank, child in enumerate(children):
                        if rank not in codes and child.poll() is not None:
                            codes[rank] = child.returncode
                    if any(codes.values()):
                        time.sleep(1.0)
                        break
                    time.sleep(0.05)
            finally:
                self.finish(children)
        text = read(log)
        code = next((c for c in codes.values() if c), 0 if len(codes) == world else -1)
        result = {"code": code, "seconds": time.monotonic() - start, "text": text, "log": os.path.basename(log)}
        if check and code != 0:
            what = f"out of time after {seconds:.0f} s" if code == -1 else f"exit codes {codes}"
            raise Failed(f"{name}: {what}", parse.last_lines(text))
        return result

    def prism(self, argv, name, seconds, world, trace, phase="auto", sandbox="0", assistants=0, extra=None, check=True,
              arguments=(), devices=None, per_node=8):
        """`prism run` of nodes of per_node GPUs (on the first `devices` GPUs; default: on all that this run has): call()'s result, with the report under "report" (of emulation), the ranks' logs of earlier phases under
        "logs" ({file name: text}), and what capture said of context switching under "switching"."""
        trace = os.path.join(self.work, trace)
        report = os.path.join(self.work, os.path.basename(trace) + f"-{phase}.json")
        if os.path.exists(report):
            os.unlink(report)
        command = [os.path.join(self.bin, "prism"), "run", f"--emulate={world}", f"--sandbox={sandbox}",
                   f"--gpus-per-node={min(per_node, world)}", f"--assistants={assistants}", f"--phase={phase}",
                   f"--trace={trace}", f"--report={report}", *arguments]
        if self.network:
            command.append(f"--network={self.network}")
        env = {}
        if devices:
            visible = [str(n) for n in range(devices)] if self.options.soft else self.devices[:devices]
            env["CUDA_VISIBLE_DEVICES"] = ",".join(visible)
        elif not self.options.soft:
            # The sandbox rank and its assistant share the device where there is one.
            twice = 2 if assistants and len(self.devices) == 1 else 1
            env["CUDA_VISIBLE_DEVICES"] = ",".join(self.devices * twice)
            if twice == 2:
                env["NCCL_HOSTID"] = "assistant"
        env.update(extra or {})
        result = self.call([*command, "--", *argv], name, seconds, env, check=False, ranks=lambda: rank_files(trace))
        result["report"] = json.loads(read(report) or "{}")
        result["logs"] = rank_logs(trace)
        # Of capture; a report is written by emulation only.
        result["switching"] = json.loads(read(os.path.join(trace, "switching.json")) or "null")
        if result["code"] == 0 or not check:
            return result
        what = f"out of time after {result['seconds']:.0f} s" if result["code"] == -1 else f"exit code {result['code']}"
        error = Failed(f"{name}: {what}", parse.last_lines(result["text"]))
        error.seconds, error.code = result["seconds"], result["code"]
        raise error

    def forget(self, trace):
        if not self.options.keep:
            shutil.rmtree(os.path.join(self.work, trace), ignore_errors=True)


def rank_files(trace):
    """What ranks write to in capture and calibration."""
    return [os.path.join(base, name) for base, _, names in os.walk(os.path.join(trace, "logs")) for name in sorted(names)]


def rank_logs(trace):
    """What ranks wrote there."""
    return {os.path.relpath(path, os.path.join(trace, "logs")): read(path) for path in rank_files(trace)}


def folder_bytes(path):
    total = 0
    for base, _, names in os.walk(path):
        total += sum(os.path.getsize(os.path.join(base, n)) for n in names)
    return total


def say(text):
    print(text, file=sys.stderr, flush=True)


def phase_numbers(logs, phase):
    """Ranks of a phase from its logs (file names tell the phase)."""
    text = "\n".join(t for n, t in logs.items() if re.search(phase, n))
    return parse.read(text)


def calibrated_durations(launcher, trace):
    """What calibration measured of real communication: a row an operation of a communicator and its size."""
    found = json.loads(read(os.path.join(launcher.work, trace, "durations.json")) or "{}")
    return [{k: d[k] for k in ("communicator", "operations", "first", "bytes", "seconds")} for d in found.get("durations", [])]


def keep_trace(launcher, trace, most=4 << 20):
    """A trace that is small enough comes back whole (OUT/TRACE.json has a tar.xz in it), so that prism predict and others can be asked here."""
    folder, packed = os.path.join(launcher.work, trace), io.BytesIO()
    if not os.path.isdir(folder) or folder_bytes(folder) > 4 * most:
        return
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        tar.add(folder, trace)
    if packed.tell() <= most:
        with open(os.path.join(launcher.out, f"{trace}.json"), "w", encoding="ascii") as out:
            json.dump({"format": "prism-kept-trace", "tar.xz": base64.b64encode(packed.getvalue()).decode()}, out)
