#!/usr/bin/env python3
"""Programs that no one here wrote, unchanged: plainly on real NCCL, then under Prism on one GPU.

    external.py fetch DIR                        clone the sources at the commits of external.pins (network and git)
    external.py site DIR [3.12]                  fetch the Python packages of external.requirements for machines with that Python
    external.py build DIR                        build nccl-tests in DIR with the machine's nvcc (NVCC, CUDA_HOME)
    external.py pack DIR FILE.tar.xz             what a machine without network needs of DIR, without objects
    external.py --bin BIN --lib LIB --out OUT --external DIR [--programs A,B] [--jobs N] [--python P] [--soft --blind P] [--list]

DIR has one folder for each line of external.pins, or one archive *.tar.xz of them; DIR/site holds Python packages that the
machine lacks. Data is synthetic and made here; where there is no package `datasets`, stand_in/site reads it, and the program's row
says so. --programs: names, their first parts, or patterns (nccl-tests/*/8), in the order in which they begin. Writes
OUT/external.json and prints one line a program: ok, failed or not possible, seconds, why. What is compared: the numbers that the
program prints, in all printed digits, between real NCCL
(where N ranks can share the one GPU without Prism), capture and emulation; for nccl-tests its own check of every result.
--soft --blind PYTHON rehearses on software GPUs (tests/gpu/blind): everything runs, and no number means anything.
Exit code 0 when nothing failed; 1 otherwise.
"""

import argparse
import concurrent.futures
import fnmatch
import glob
import importlib.util
import json
import math
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

from harness.functional import doctor  # noqa: E402
from harness.launch import Failed, Launcher, rehearsal_python, say  # noqa: E402

NCCL_TESTS = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce", "gather", "scatter")
NUMBER = r"[-+0-9.eE]+|nan|inf"
STAND_IN = os.path.join(HERE, "stand_in", "site")
TOOLS = ".tools"  # of a program's own folder, first in its PATH
SPREADS = 2  # so many times what real NCCL differs from itself by the order of its sums
LEAST = 45  # seconds; what has less left is not begun
# Of packages: what no program asks for.
LEFT_OUT = ("bin", "*/webfiles.zip", "*/tests", "*/testing", "*/plugins/projector/tf_projector_plugin", "*.pyi", "__pycache__")


class NotPossible(Exception):
    """This machine lacks something; the text says what."""


def pins():
    with open(os.path.join(HERE, "external.pins"), encoding="ascii") as text:
        rows = [line.split() for line in text if line.strip() and not line.startswith("#")]
    return {row[0]: {"url": row[1], "commit": row[2], "paths": row[3:]} for row in rows}


# --- making the folder ---


def fetch(folder):
    """Shallow, so that a large repository costs one commit."""
    for name, pin in pins().items():
        target = os.path.join(folder, name)
        os.makedirs(target, exist_ok=True)
        for argv in (["init", "-q"], ["fetch", "-q", "--depth=1", pin["url"], pin["commit"]],
                     ["checkout", "-q", "FETCH_HEAD", "--", *pin["paths"]]):
            subprocess.run(["git", "-C", target, *argv], check=True)
        shutil.rmtree(os.path.join(target, ".git"))
        print(f"{name} {pin['commit']}")


def site(folder, version="3.12"):
    """Wheels for that Python, whichever runs here, without what they depend on: the list is whole."""
    target = os.path.join(folder, "site")
    shutil.rmtree(target, ignore_errors=True)
    platforms = [f"--platform={name}_x86_64" for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-compile",
                    "--only-binary=:all:", f"--python-version={version}", "--implementation=cp", *platforms, "--target", target,
                    "-r", os.path.join(HERE, "external.requirements")], check=True)
    for base, folders, names in os.walk(target, topdown=False):
        for name in folders + names:
            path = os.path.join(base, name)
            if any(fnmatch.fnmatch(os.path.relpath(path, target), p) or name == p for p in LEFT_OUT):
                (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)
    print(f"{target}: {sum(os.path.getsize(os.path.join(b, n)) for b, _, names in os.walk(target) for n in names) / 1048576:.1f} MiB")


def build(folder):
    """nccl-tests with MPI, so that each rank is a process; the MPI is tests/gpu/mpi_shim."""
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    source, shim = os.path.join(folder, "nccl-tests"), os.path.join(folder, "mpi")
    if not os.path.exists(os.path.join(cuda, "bin", "nvcc")):
        raise NotPossible(f"there is no nvcc in {cuda}/bin (CUDA_HOME)")
    for part in ("include", "lib"):
        os.makedirs(os.path.join(shim, part), exist_ok=True)
    shutil.copy(os.path.join(HERE, "mpi_shim", "mpi.h"), os.path.join(shim, "include"))
    subprocess.run(["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-Wl,-soname,libmpi.so", "-o",
                    os.path.join(shim, "lib", "libmpi.so"), os.path.join(HERE, "mpi_shim", "mpi_shim.c")], check=True)
    nccl = os.environ.get("NCCL_HOME", cuda)
    subprocess.run(["make", "-s", "-C", source, "MPI=1", "DSO=1", f"MPI_HOME={os.path.abspath(shim)}", f"CUDA_HOME={cuda}",
                    f"NCCL_HOME={nccl}", "NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90", f"-j{os.cpu_count()}"], check=True)


def pack(folder, archive):
    def wanted(info):
        skip = info.name.endswith((".o", ".pyc", ".a")) or "__pycache__" in info.name
        return None if skip else info

    for path in glob.glob(os.path.join(folder, "nccl-tests", "build", "**", "*"), recursive=True):
        if os.path.isfile(path) and (path.endswith("_perf") or ".so" in path):
            subprocess.run(["strip", path], check=True)
    part = archive + ".part"
    with tarfile.open(part, "w:xz") as out:
        for name in sorted(os.listdir(folder)):
            if os.path.isdir(os.path.join(folder, name)):
                out.add(os.path.join(folder, name), name, filter=wanted)
    os.rename(part, archive)
    print(f"{archive}: {os.path.getsize(archive) / 1048576:.1f} MiB")


# --- the programs ---


@dataclass
class Program:
    """One program of the list; argv is run in `folder`, which is the program's own copy."""

    source: str
    argv: list
    world: int = 4
    sandbox: int = 0  # the rank that prints the numbers
    folder: str = "."
    numbers: str = ""  # regular expression; what it finds is compared; its first group is the step
    done: str = ""  # must be in the output of rank `sandbox`
    plain: bool = True  # N ranks can share one GPU with LOCAL_RANK=0 each
    emulate: bool = True
    why_not: str = ""  # for what is left out above
    prelude: str = ""  # Python that runs before the program in the plain run only
    env: dict = field(default_factory=dict)
    prepare: object = None
    finds: str = ""  # regular expression: what Prism must say is wrong with the program
    limit: float = 200
    orders: tuple = ()  # it has sums over more than two ranks, whose order is NCCL's own: see Runner.other_orders
    blind: list = field(default_factory=list)  # more arguments where kernels do nothing
    packages: bool = False  # of DIR/site
    stand_in: tuple = ()  # packages of stand_in/site that it takes where the machine has none
    compare: object = None  # (plain folder, captured folder) -> text of a difference, or ""


def words(length, seed):
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(400)]
    return " ".join(rng.choices(vocabulary, k=length))


def nanogpt_data(folder, _run):
    data = os.path.join(folder, "data", "synthetic")
    os.makedirs(data, exist_ok=True)
    rng = random.Random(7)
    for name, count in (("train", 40000), ("val", 4000)):
        with open(os.path.join(data, f"{name}.bin"), "wb") as out:
            out.write(b"".join(min(255, int(rng.expovariate(0.02))).to_bytes(2, "little") for _ in range(count)))
    with open(os.path.join(data, "meta.pkl"), "wb") as out:
        pickle.dump({"vocab_size": 256}, out)


def titan_data(folder, run):
    """The shape of c4's files. One process makes the cached form of it, so that ranks need not."""
    data = os.path.join(folder, "synthetic")
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(data, "data.json"), "w", encoding="ascii") as out:
        for i in range(300):
            out.write(json.dumps({"text": words(300, i)}) + "\n")
    run([sys.executable, "-c", "from datasets import load_dataset; load_dataset('synthetic', split='train')"])


def megatron_helpers(folder, run):
    """Its C++ helper for data sets, which it otherwise builds itself when rank 0 starts; with what its own `make` needs to see that."""
    helpers = os.path.join(folder, "megatron", "core", "datasets")
    suffix = run([sys.executable, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"]).strip()
    include = run([sys.executable, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"]).strip()
    os.makedirs(os.path.join(folder, TOOLS), exist_ok=True)
    for name, text in (("python3-config", f"echo {suffix}"), *(() if shutil.which("make") else (("make", "true"),))):
        with open(os.path.join(folder, TOOLS, name), "w", encoding="ascii") as out:
            out.write(f"#!/bin/sh\n{text}\n")
            os.chmod(out.name, 0o755)
    target = os.path.join(helpers, "helpers_cpp" + suffix)
    if os.path.exists(target):
        return
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise NotPossible(f"its helper needs Python's headers, and {include}/Python.h is not there")
    # PyTorch brings pybind11's headers.
    code = "import importlib.util as i; t = i.find_spec('torch').origin\n" \
           "try: import pybind11; print(pybind11.get_include())\nexcept ImportError: print(t.rpartition('/')[0] + '/include')"
    pybind = run([sys.executable, "-c", code]).strip()
    run(["g++", "-O2", "-shared", "-std=c++17", "-fPIC", f"-I{include}", f"-I{pybind}",
         os.path.join(helpers, "helpers.cpp"), "-o", target])


def same_checkpoint(plain, captured):
    """FSDP2's example prints no numbers; it leaves the trained model."""
    import torch  # pylint: disable=import-outside-toplevel

    files = [glob.glob(os.path.join(f, "checkpoints", "**", "model_state_dict.pt"), recursive=True) for f in (plain, captured)]
    if not all(files):
        return f"no checkpoint of {'the plain run' if not files[0] else 'capture'}"
    a, b = (torch.load(f[0], map_location="cpu", weights_only=True) for f in files)
    worst = max(float((a[k].double() - b[k].double()).norm() / (a[k].double().norm() + 1e-12)) for k in a)
    # Sums in another order go through ten steps of Adam.
    return "" if a.keys() == b.keys() and worst < 1e-3 else f"checkpoints differ by {worst:.2g} (relative, worst tensor)"


def python(script, *arguments):
    """"python3" stands for the one that the programs are run with."""
    return ["python3", script, *arguments]


MEGATRON = (
    "--transformer-impl local --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 "
    "--max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 8 --train-iters 5 --lr 1e-3 --min-lr 1e-4 "
    "--lr-decay-style constant --weight-decay 0.01 --clip-grad 1.0 --bf16 --mock-data --tokenizer-type NullTokenizer "
    "--vocab-size 1000 --split 99,1,0 --eval-iters 0 --eval-interval 1000 --log-interval 1 --no-persist-layer-norm "
    "--no-gradient-accumulation-fusion --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion "
    "--no-rope-fusion --disable-gloo-process-groups --num-workers 0 --distributed-timeout-minutes 3").split()
TITAN = (
    "--model.name llama3 --model.flavor debugmodel --model.hf_assets_path ./tests/assets/tokenizer --training.dataset c4_test "
    "--training.dataset_path synthetic --training.steps 5 --training.local_batch_size 4 --training.seq_len 256 "
    "--debug.seed 42 --metrics.log_freq 1 --metrics.disable_color_printing --lr_scheduler.warmup_steps 2").split()
PAIR_SUMS = f"import sys; sys.path.insert(0, {os.path.join(HERE, 'tools')!r}); import pair_sums; sys.path.pop(0)"
# Not torch.cuda.device_count: PyTorch itself believes that.
EIGHT_DEVICES = "import torch; torch.accelerator.device_count = lambda: 8"


def programs():
    found = {}
    for name in NCCL_TESTS:
        for world in (4, 8):
            found[f"nccl-tests/{name}/{world}"] = nccl_test(name, world, ["-b", "8", "-e", "4M", "-f", "8"])
        types = ["-b", "1K", "-e", "16K", "-f", "16", "-d", "all"]
        found[f"nccl-tests/{name}/types"] = nccl_test(name, 4, types + (["-o", "all"] if "reduce" in name else []))
    found["nanogpt"] = Program(
        "nanogpt", python("train.py", "--dataset=synthetic", "--n_layer=2", "--n_head=4", "--n_embd=128", "--block_size=128",
                          "--batch_size=4", "--gradient_accumulation_steps=8", "--max_iters=6", "--eval_interval=1000",
                          "--eval_iters=2", "--compile=False", "--learning_rate=1e-3", "--warmup_iters=2"),
        numbers=rf"iter (\d+): loss ({NUMBER})", prepare=nanogpt_data,
        orders=("pairs",))
    found["torchtitan/fsdp-tp"] = Program(
        "torchtitan", python("-m", "torchtitan.train", *TITAN, "--parallelism.tensor_parallel_degree", "2"),
        numbers=rf"step: *(\d+) +loss: *({NUMBER}) +grad_norm: *({NUMBER})", prepare=titan_data, packages=True, stand_in=("datasets",))
    found["torchtitan/pp"] = Program(
        "torchtitan", python("-m", "torchtitan.train", *TITAN, "--parallelism.pipeline_parallel_degree", "2",
                             "--parallelism.pipeline_parallel_schedule", "1F1B"), sandbox=3,
        numbers=rf"step: *(\d+) +loss: *({NUMBER}) +grad_norm: *({NUMBER})", prepare=titan_data, packages=True, stand_in=("datasets",))
    for name, options in (("dp-tp", ["--tensor-model-parallel-size", "2"]),
                          # Sequence parallelism needs Apex or Transformer Engine: PyTorch's LayerNorm is refused with it.
                          ("tp-pp", ["--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2"])):
        found[f"megatron/{name}"] = Program(
            "megatron", python("pretrain_gpt.py", *MEGATRON, *options), sandbox=3, prepare=megatron_helpers, packages=True,
            blind=["--rerun-mode", "disabled", "--no-check-for-nan-in-loss-and-grad"],
            env={"CUDA_DEVICE_MAX_CONNECTIONS": "1", "TORCH_COMPILE_DISABLE": "1"},
            # The gradient's norm is summed over all four, and nothing else: so this is asked to be equal in every digit.
            orders=("pairs",) if name == "tp-pp" else (),
            numbers=rf"iteration +(\d+)/.*?lm loss: ({NUMBER}).*?grad norm: ({NUMBER})")
    folder = "distributed/"
    found["pytorch/ddp"] = Program("pytorch-examples", python("example.py"), folder=folder + "ddp", plain=False, emulate=False,
                                   done="training completed in rank 0", why_not="it takes device RANK, and has one iteration")
    found["pytorch/fsdp2"] = Program("pytorch-examples", python("example.py"), folder=folder + "FSDP2", emulate=False,
                                     why_not="it resumes from the checkpoint of the run before", prelude=EIGHT_DEVICES,
                                     compare=same_checkpoint)
    for name, script, done in (("tp", "tensor_parallel_example.py", "Tensor Parallel training completed!"),
                               ("sp", "sequence_parallel_example.py", "Sequence Parallel training completed!"),
                               ("fsdp-tp", "fsdp_tp_example.py", "2D training successfully completed!")):
        found[f"pytorch/{name}"] = Program("pytorch-examples", python(script), folder=folder + "tensor_parallelism", done=done,
                                           plain=False, why_not="it prints no numbers")
    # Its example_train.py traces the model in a way that today's PyTorch no longer does; this one does not trace.
    found["pippy/manual"] = Program(
        "pippy", python("example_manual_stage.py"), folder="examples/basic", world=3, sandbox=2, plain=False, emulate=False,
        env={"PYTHONPATH": "../.."},
        # Its stages take the whole batch for an example of what they receive, and send a quarter of it four times. Plainly, ranks 0
        # and 1 end after that, and rank 2, which waits for more, fails after a minute (ncclRemoteError).
        finds="rank 0 .* calls Send of 4096 x fp32 to rank 1, rank 1 .* Recv of 16384 x fp32 from rank 0: .* has two sizes",
        why_not="it receives more than it sends, which Prism finds")
    return found


def nccl_test(name, world, sizes):
    return Program("nccl-tests", [f"build/{name}_perf", *sizes, "-n", "2", "-w", "1", "-c", "1"], world=world, plain=False,
                   emulate=False, done="Out of bounds values : 0 OK", limit=150, env={"MPI": "1"},
                   why_not="it checks its own results; its MPI is among all ranks")


# --- running them ---


def same(a, b, tolerance):
    """Two lines' numbers: equal as printed, or of one step and no further apart."""
    if a == b or not tolerance or a[0] != b[0]:
        return a == b
    return apart(a, b) <= tolerance


def apart(a, b):
    """The largest relative difference between the numbers of two lines of one step."""
    differences = [abs(float(x) - float(y)) / abs(float(y)) if float(y) else float(x != y) for x, y in zip(a[1:], b[1:])]
    return max(d if math.isfinite(d) else math.inf for d in differences)


def spread(runs):
    """How far runs of real NCCL that add in other orders are from the first of them, at most."""
    first, *others = runs
    steps = {line[0]: line for line in first}
    return max((apart(line, steps[line[0]]) for other in others for line in other if line[0] in steps), default=0)


def after(prelude, argv):
    """A Python program that first runs a line of ours."""
    if not prelude:
        return argv
    code = f"{prelude}; import runpy, sys; sys.path.insert(0, ''); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return [argv[0], "-c", code, *argv[1:]]


class Runner:
    def __init__(self, options, launcher, sources):
        self.options, self.launcher, self.sources = options, launcher, sources
        self.interpreter = rehearsal_python(options) if options.soft else sys.executable
        packages = os.path.join(sources, "site")
        self.packages = [packages] if os.path.isdir(packages) else []

    def stands_in(self, program):
        return [n for n in program.stand_in
                if not importlib.util.find_spec(n) and not any(os.path.isdir(os.path.join(p, n)) for p in self.packages)]

    def environment(self, program, folder):
        env = dict(program.env)
        if program.packages:
            stand_in = [STAND_IN] if self.stands_in(program) else []
            env["PYTHONPATH"] = ":".join(p for p in (env.get("PYTHONPATH"), *self.packages, *stand_in) if p)
        # No hub is asked for anything; caches stay in the folder.
        env.update(HF_HOME=os.path.join(folder, ".hf"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                   TRITON_CACHE_DIR=os.path.join(folder, ".triton"), OMP_NUM_THREADS="1",
                   PATH=os.path.join(folder, TOOLS) + ":" + os.environ["PATH"])
        if env.pop("MPI", None):
            # Short: a socket lies in it.
            env["MPI_SHIM_DIR"] = tempfile.mkdtemp(prefix="mpi", dir="/tmp")
            libs = [os.path.join(self.sources, "mpi", "lib"), os.path.join(folder, "build", "verifiable")]
            env["LD_LIBRARY_PATH"] = ":".join([self.launcher.environment().get("LD_LIBRARY_PATH", ""), *libs]).lstrip(":")
        return env

    def copy(self, program, name, kind):
        """A copy for one way of running it: programs write beside themselves."""
        source = os.path.join(self.sources, program.source)
        if not os.path.isdir(source):
            raise NotPossible(f"its source is not in {self.options.external}: external.py fetch")
        target = os.path.join(self.launcher.work, name.replace("/", "-") + "-" + kind)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)
        return target

    def prepared(self, program, name, kind):
        folder = self.copy(program, name, kind)
        env = self.environment(program, folder)
        if program.source == "nccl-tests" and not os.path.exists(os.path.join(folder, program.argv[0])):
            raise NotPossible("it is not built: external.py build")

        def run(argv):
            got = self.launcher.call(argv, f"{name.replace('/', '-')}-prepare", 150, env, cwd=folder, check=False)
            if got["code"] != 0:
                missing = re.search(r"No module named '([^']+)'", got["text"])
                if missing:
                    raise NotPossible(f"Python package {missing[1]} is not installed, nor in {self.options.external}/site")
                raise Failed(f"preparing it: exit code {got['code']}", got["text"].splitlines()[-12:])
            return got["text"]

        if program.prepare:
            program.prepare(folder, run)
        return os.path.join(folder, program.folder), env

    def numbers(self, program, text, what):
        if program.done and program.done not in re.sub(r" +", " ", text):
            raise Failed(f"{what}: it did not print '{program.done}'", text.splitlines()[-12:])
        found = re.findall(program.numbers, text) if program.numbers else []
        # Megatron prints no loss that is 0.
        if program.numbers and not found and not self.options.soft:
            raise Failed(f"{what}: it printed no numbers", text.splitlines()[-12:])
        return found

    def run(self, name, program):
        row = {"program": name, "world": program.world, "commit": pins()[program.source]["commit"], "why_not": program.why_not}
        if self.stands_in(program):
            row["stand_in"] = self.stands_in(program)
        label, found, folders = name.replace("/", "-"), {}, {}
        if program.plain:
            folders["real"], env = self.prepared(program, name, "real")
            argv = after(program.prelude, program.argv)
            got = self.launcher.ranks(self.inside(folders["real"], argv, program.blind), program.world, label + "-real", program.limit,
                                      {**env, "LOCAL_WORLD_SIZE": "1"})
            row["seconds_real"] = got["seconds"]
            found["real"] = self.numbers(program, got["text"], "real NCCL")
        folders["prism"], env = self.prepared(program, name, "prism")
        trace = label + "-trace"
        got = self.launcher.prism(self.inside(folders["prism"], program.argv, program.blind), label + "-prism",
                                  program.limit * (2 if program.emulate else 1), program.world, trace,
                                  phase="auto" if program.emulate else "capture", sandbox=str(program.sandbox), extra=env,
                                  arguments=("--slices=1",), check=not program.finds)
        row["seconds_prism"] = got["seconds"]
        if program.finds:
            said = re.search(program.finds, got["text"])
            if not said or got["code"] == 0:
                raise Failed(f"Prism did not say what is wrong with it, exit code {got['code']}", got["text"].splitlines()[-12:])
            self.launcher.forget(trace)
            return {**row, "found": said[0]}
        captured = next((t for n, t in got["logs"].items() if n.endswith(f"capture.rank{program.sandbox}")), "")
        found["capture"] = self.numbers(program, captured, "capture")
        if program.emulate:
            found["emulation"] = self.numbers(program, got["text"], "emulation")
            row["iteration_seconds"] = got["report"].get("iteration_seconds")
        self.launcher.forget(trace)
        row["numbers"] = found
        if not self.options.soft:
            orders = {}
            if program.orders and "real" in found and any(x not in found["real"] for x in found["capture"]):
                orders = self.other_orders(name, program, folders["real"], row)
                if "pairs" in orders:
                    found["real"] = orders.pop("pairs")
            self.judge(program, found, folders, SPREADS * spread([found["real"], *orders.values()]) if orders else 0)
        shutil.rmtree(env.get("MPI_SHIM_DIR", "/nonexistent"), ignore_errors=True)
        return row

    def inside(self, folder, argv, blind=()):
        if argv[0] == "python3":
            argv = [self.interpreter, *argv[1:], *(blind if self.options.soft else ())]
        return ["sh", "-c", 'cd "$0" && exec "$@"', folder, *argv]

    def other_orders(self, name, program, folder, row):
        """What the program prints on real NCCL when sums over more than two ranks are added in another order, one of which is as good as
        another. Along a ring and along a tree: how far apart they take the program is how far capture may be. In pairs: in capture's own
        order, so that nothing may differ (tools/pair_sums.py)."""
        found = {}
        for order in program.orders:
            env, argv = self.environment(program, folder), program.argv
            if order == "pairs":
                argv = after(PAIR_SUMS, argv)
            else:
                env["NCCL_ALGO"] = f"allreduce:{order}"
            got = self.launcher.ranks(self.inside(folder, argv), program.world, f"{name.replace('/', '-')}-real-{order}",
                                      program.limit, {**env, "LOCAL_WORLD_SIZE": "1"})
            found[order] = self.numbers(program, got["text"], f"real NCCL, adding by {order}")
        row["orders"] = found
        return found

    @staticmethod
    def judge(program, found, folders, tolerance=0):
        first = next(iter(found))
        for name, numbers in found.items():
            # A plain run's output is of all ranks, and stages of a pipeline print other numbers than the last one does.
            other = [x for x in numbers if not any(same(x, y, tolerance if first == "real" else 0) for y in found[first])][:3]
            if name == "emulation" and not other:
                other = [x for x in numbers if x not in found["capture"]][:3]
            if other or {x[0] for x in numbers} != {x[0] for x in found[first]}:
                raise Failed(f"{name} differs from {first}: {other or 'lines are missing'}; allowed: {tolerance:.1e}",
                             [f"{k}: {v[:12]}" for k, v in found.items()])
        if program.compare:
            difference = program.compare(folders["real"], folders["prism"])
            if difference:
                raise Failed(difference)

    def row(self, name, program):
        start = time.monotonic()
        try:
            if self.launcher.left() < LEAST:
                raise NotPossible("no time left for it")
            row = {**self.run(name, program), "result": "ok"}
        except NotPossible as error:
            row = {"program": name, "result": "not possible", "why": str(error)}
        except Failed as error:
            missing = re.search(r"No module named '([^']+)'", "\n".join(error.lines))
            row = {"program": name, "result": "failed", "why": str(error), "lines": error.lines}
            if missing:
                row.update(result="not possible", why=f"Python package {missing[1]} is not installed")
        except Exception as error:  # pylint: disable=broad-except
            row = {"program": name, "result": "failed", "why": f"{type(error).__name__}: {error}"}
        row["seconds"] = time.monotonic() - start
        say(f"{name}: {row['result']} {row['seconds']:.0f} s" + (f": {row['why']}" if row.get("why") else ""))
        for line in row.get("lines", [])[-8:]:
            say(f"    | {line}")
        return row


def unpacked(options, work):
    """The folder of sources, writable or not."""
    archives = glob.glob(os.path.join(options.external, "*.tar.xz"))
    if not archives:
        return os.path.abspath(options.external)
    target = os.path.join(work, "sources")
    os.makedirs(target, exist_ok=True)
    for archive in archives:
        subprocess.run(["tar", "-xJf", archive, "-C", target], check=True)
    return target


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True)
    p.add_argument("--lib", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--external", "--sources", required=True)
    p.add_argument("--programs", default="", help="names, their first parts (nccl-tests), or patterns (nccl-tests/*/8)")
    p.add_argument("--jobs", type=int, default=3, help="at once; a driver has contexts for some 512 hardware queues, of which a world asks for 128")
    p.add_argument("--python", default=sys.executable, help="has PyTorch")
    p.add_argument("--dep", default="", help="shared libraries that the machine lacks")
    p.add_argument("--network", default="", help="network profile (default: measured)")
    p.add_argument("--budget", type=float, default=580, help="seconds for everything")
    p.add_argument("--soft", action="store_true")
    p.add_argument("--blind", default="", metavar="PYTHON", help="with --soft: has PyTorch for CUDA")
    p.add_argument("--list", action="store_true")
    options = p.parse_args()
    if options.soft:
        if not options.blind:
            p.error("--soft needs --blind: the stand-in for Python has no counterpart of these programs")
        options.python = options.blind
    options.gpus, options.keep = 1, False
    for name in ("bin", "lib", "out", "external"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    return options


def save(out, rows, facts):
    """After every program: the machine may go at any moment."""
    counts = {r: sum(row["result"] == r for row in rows) for r in ("ok", "failed", "not possible")}
    path = os.path.join(out, "external.json")
    with open(path + ".new", "w", encoding="utf-8") as text:
        json.dump({"format": "prism-external-results", "facts": facts, "counts": counts, "programs": rows}, text, indent=1)
    os.replace(path + ".new", path)
    return counts


def choose(table, wanted):
    """In the order of what is wanted; everything where nothing is named."""
    found = {}
    for pattern in wanted or ["*"]:
        found.update({n: p for n, p in table.items() if n not in found and (fnmatch.fnmatch(n, pattern) or n.startswith(pattern + "/"))})
    return found


def measure(launcher):
    """The profile of the network, which one device cannot measure by itself: of two processes on it, else a nominal one."""
    try:
        doctor(launcher, {"rows": []})
    except (Failed, OSError) as error:
        say(f"prism doctor: {error}; the network is nominal")


def main():
    if len(sys.argv) >= 3 and sys.argv[1] in ("fetch", "site", "build", "pack"):
        {"fetch": fetch, "site": site, "build": build, "pack": pack}[sys.argv[1]](*sys.argv[2:])
        return 0
    options = arguments()
    # This goes on in the programs' Python, whatever that calls itself.
    if os.environ.get("EXTERNAL_PYTHON") != options.python and shutil.which(options.python) != sys.executable:
        os.environ["EXTERNAL_PYTHON"] = options.python
        os.execvp(options.python, [options.python, *sys.argv, "--python", options.python])
    chosen = choose(programs(), [w for w in options.programs.split(",") if w])
    if options.list:
        print("\n".join(chosen))
        return 0
    os.makedirs(options.out, exist_ok=True)
    options.work = tempfile.mkdtemp(prefix="external")
    launcher, rows, lock = Launcher(options, options.out), [], threading.Lock()
    try:
        runner = Runner(options, launcher, unpacked(options, options.work))
        if not launcher.network and any(p.emulate for p in chosen.values()):
            measure(launcher)

        def one(item):
            row = runner.row(*item)
            with lock:
                rows.append(row)
                save(options.out, rows, launcher.facts)

        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(one, chosen.items()))
    finally:
        shutil.rmtree(options.work, ignore_errors=True)
    counts = save(options.out, rows, launcher.facts)
    say(", ".join(f"{n} {r}" for r, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
