"""What the programs share: options, the process group, the loop that times iterations, and what is printed.

Nothing here knows of Prism: ranks come from RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun
sets them. Every rank prints at its end

    rank R iteration I loss L grad_norm G seconds S loss_bits H     L, G: %.9g; H: float.hex() of the loss
    rank R NAME NUMBER                                              max_memory_allocated, device_used, …
    rank R versions TEXT

An iteration's seconds run from the end of the one before to the moment at which its loss is a number on the host.
"""

import argparse
import bisect
import contextlib
import faulthandler
import json
import os
import signal
import sys
import time

# cuBLAS is deterministic only with a workspace of its own; it reads this when it is first used.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

GIB = 1 << 30
# kill -USR2: where every thread is, on standard error (harness/autopsy.py asks those that do not end).
faulthandler.register(signal.SIGUSR2, all_threads=True)


def parser(about):
    p = argparse.ArgumentParser(description=about)
    p.add_argument("--iterations", type=int, default=4)
    p.add_argument("--size", choices=("small", "medium", "full"), default="small",
                   help="small: below 1 GB a rank; medium: kernels of milliseconds; full: about --gib a rank")
    p.add_argument("--gib", type=float, default=4.0, help="memory of a rank, with --size full")
    p.add_argument("--batch", type=int, default=0, help="sequences a rank and iteration; 0: what the size asks for")
    p.add_argument("--batch-from", help="file that holds --batch, read when the program starts")
    p.add_argument("--data", type=int, default=0, help="different batches, taken again and again; 0: every iteration has its own")
    p.add_argument("--layers", type=int, default=0)
    p.add_argument("--accumulate", type=int, default=1, help="micro-steps that the batch is cut into")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--dtype", choices=("float32", "bfloat16"), default=None)
    p.add_argument("--clip", type=float, default=1.0, help="largest gradient norm; 0: no clipping")
    p.add_argument("--seed", type=int, default=1234)
    p.add_argument("--profile", help="write kernel durations of the last iterations to FILE.RANK")
    return p


class Job:
    """One rank: options, device, process group, results."""

    def __init__(self, options, bind=True):
        self.options = options
        if options.batch_from:
            with open(options.batch_from, encoding="ascii") as text:
                options.batch = int(text.read())
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.started = time.perf_counter()
        if options.device == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        else:
            self.device = torch.device("cpu")
            torch.set_num_threads(1)
        # Not with warn_only: attention then keeps its non-deterministic backward.
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.manual_seed(options.seed)
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo",
                                device_id=self.device if bind and options.device == "cuda" else None)
        self.lines, self.samples = [], []
        dtype = options.dtype or ("bfloat16" if options.size == "medium" else "float32")
        self.compute = torch.bfloat16 if dtype == "bfloat16" else torch.float32

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.compute == torch.bfloat16)

    def generator(self, iteration, lane=None):
        """Random numbers of an iteration, other ones for every lane (default: the rank)."""
        lane = self.rank if lane is None else lane
        iteration = iteration % self.options.data if self.options.data else iteration
        made = torch.Generator(device=self.device)
        made.manual_seed((self.options.seed * 1_000_003 + iteration) * 65_537 + lane)
        return made

    def tokens(self, iteration, batch, length, vocabulary, lane=None):
        """(batch, length + 1) token numbers: inputs and, one further, targets."""
        return torch.randint(vocabulary, (batch, length + 1), device=self.device,
                             generator=self.generator(iteration, lane))

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def loop(self, step):
        """step(iteration) → (loss tensor, gradient norm tensor or None), once an iteration."""
        o = self.options
        self.value("setup_seconds", time.perf_counter() - self.started)
        profiler = None
        before = time.perf_counter()
        for i in range(o.iterations):
            if o.profile and i == min(2, o.iterations - 1):
                profiler = self.profiler()
                before = time.perf_counter()
            with torch.profiler.record_function(f"iteration {i}") if profiler else contextlib.nullcontext():
                loss, norm = step(i)
            loss = float(loss.item())
            now = time.perf_counter()
            self.samples.append(now - before)
            before = now
            # Reading the norm is not part of the program that is timed.
            norm = float(norm.item()) if norm is not None else float("nan")
            self.lines.append(f"rank {self.rank} iteration {i} loss {loss:.9g} grad_norm {norm:.9g} "
                              f"seconds {self.samples[-1]:.9f} loss_bits {loss.hex()}")
        self.synchronize()
        if profiler:
            self.write_profile(profiler)

    def profiler(self):
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        made = torch.profiler.profile(activities=kinds)
        made.start()
        return made

    def write_profile(self, profiler):
        """Kernel name → durations in microseconds, in the order of start; the same for starts, a list an iteration, from
        when the host began it (an iteration ends with a wait for its loss); how large the profiler's own trace is."""
        profiler.stop()
        path = f"{self.options.profile}.{self.rank}"
        profiler.export_chrome_trace(path + ".trace.json")
        with open(path + ".trace.json", encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
        begins = sorted(e["ts"] for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("iteration "))
        kernels, starts = {}, {}
        for e in sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"]):
            kernels.setdefault(e["name"], []).append(e["dur"])
            n = bisect.bisect_right(begins, e["ts"]) - 1
            if n >= 0:
                starts.setdefault(e["name"], [[] for _ in begins])[n].append(round(e["ts"] - begins[n], 3))
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"iterations": self.options.iterations - min(2, self.options.iterations - 1),
                       "trace_bytes": os.path.getsize(path + ".trace.json"), "kernels": kernels, "starts": starts}, out)
        os.unlink(path + ".trace.json")

    def value(self, name, number):
        self.lines.append(f"rank {self.rank} {name} {number}")

    def end(self, destroy=True):
        """Print the results. The process group goes before the program, as PyTorch asks for."""
        versions = f"torch {torch.__version__}"
        if self.device.type == "cuda":
            free, total = torch.cuda.mem_get_info()
            self.value("max_memory_allocated", torch.cuda.max_memory_allocated())
            self.value("max_memory_reserved", torch.cuda.max_memory_reserved())
            self.value("device_used", total - free)
            self.value("device_total", total)
            versions += f" cuda {torch.version.cuda} nccl {'.'.join(map(str, torch.cuda.nccl.version()))}"
        self.lines.append(f"rank {self.rank} versions {versions}")
        # One write: ranks may share the file.
        sys.stdout.write("\n".join(self.lines) + "\n")
        sys.stdout.flush()
        if destroy:
            dist.destroy_process_group()


def reduce_gradients(parameters, group, parts):
    """Gradients become their sum over the group, divided by parts: in flat pieces of at most 100 MB."""
    pieces, size = [[]], 0
    for p in parameters:
        if pieces[-1] and size + p.numel() > 25_000_000:
            pieces.append([])
            size = 0
        pieces[-1].append(p)
        size += p.numel()
    for piece in pieces:
        flat = torch.cat([p.grad.flatten() for p in piece])
        if dist.get_world_size(group) > 1:
            dist.all_reduce(flat, group=group)
        flat /= parts
        for p, part in zip(piece, flat.split([p.numel() for p in piece])):
            p.grad.copy_(part.view_as(p))


def clip(job, parameters):
    """Gradient norm, after which gradients are no longer than --clip."""
    limit = job.options.clip if job.options.clip > 0 else float("inf")
    norm = torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm
