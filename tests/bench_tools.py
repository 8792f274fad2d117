#!/usr/bin/env python3
"""bench_tools.py BUILD WORK [--repeat N] [--only TEXT]: what the commands cost that need a trace alone, and the parts below them.

Prints FIGURE lines (bench.sh): predictions by world from cold files, prism synth, export and plot, payloads, reductions. A
benchmark is a function of BENCHES that runs once and returns {name: (value, unit)}. One that fails is named on standard error,
the others go on, and the exit code is 1.
"""
import argparse, json, os, shutil, subprocess, sys, tempfile, time


class Failed(Exception):
    pass


# --- Running ---

def forget(path):
    """The files below path leave the page cache, so that they are read cold."""
    for folder, _, names in os.walk(path):
        for name in names:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def measure(command, limit=600):
    """Seconds, largest resident bytes (at least this program's own, which a child begins with) and output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment)
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > limit:
                child.kill()
            time.sleep(0.001)
        seconds = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if child.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit code {child.returncode}: {err.read().decode(errors='replace').strip()[-300:]}")
        return seconds, usage.ru_maxrss * 1024, out.read().decode()


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def prism(*arguments):
    return [os.path.join(build, "bin", "prism"), *arguments]


def program(name, *arguments):
    return [os.path.join(build, "test", name), *arguments]


def trace_of(preset):
    """A synthetic trace, made once."""
    path = os.path.join(work, preset)
    if not os.path.exists(path):
        measure(prism("synth", preset, "--output=" + path))
    return path


# --- Benchmarks ---

def reductions():
    """Sums of 16 and 32 bit floats, one core."""
    rows = [line.split() for line in measure(program("coll_bench_reduce"))[2].splitlines()]
    table = {row[0]: float(row[1]) for row in rows if row[0] in ("bf16", "fp16", "fp32")}
    return {f"reduce_{name}_sum_bytes_per_second": (value * 1e9, "bytes/s") for name, value in table.items()}


def payloads():
    """256 MiB of payloads into a trace and back, two threads."""
    case = json.loads(measure(program("bench_payload", work, "256", "2"))[2].splitlines()[-1])
    size = case["raw_bytes"]
    return {"payload_write_bytes_per_second": (size / (case["put_seconds"] + case["finish_seconds"]), "bytes/s"),
            "payload_read_bytes_per_second": (size / case["get_seconds"], "bytes/s")}


def predictions():
    """From a cold file to the printed prediction, by world (bench_engine.sh: the preset peer)."""
    results = {}
    for n in 512, 1024, 2048, 4096, 8192:
        name, trace = f"qwen3_{n}", trace_of(f"qwen3-moe-{n}")
        forget(trace)
        seconds, resident, _ = measure(prism("predict", trace, "--json"))
        results[f"predict_{name}_seconds"] = (seconds, "s")
        results[f"predict_{name}_rss_bytes"] = (resident, "bytes")
        results[f"trace_{name}_bytes"] = (folder_bytes(trace), "bytes")
    return results


def synth():
    path = os.path.join(work, "again")
    shutil.rmtree(path, ignore_errors=True)
    seconds, resident, _ = measure(prism("synth", "peer", "--output=" + path))
    return {"synth_8192_seconds": (seconds, "s"), "synth_8192_rss_bytes": (resident, "bytes")}


def exports():
    """A medium trace, 512 ranks: CSV and Chakra of all of them, Perfetto of 64."""
    results = {}
    for form, ranks in ("csv", "0-511"), ("perfetto", "0-63"), ("chakra", "0-511"):
        out = os.path.join(work, "export." + form)
        seconds = measure(prism("export", trace_of("qwen3-moe-512"), "--format=" + form, "--ranks=" + ranks, "--output=" + out))[0]
        results[f"export_512_{form}_seconds"] = (seconds, "s")
        results[f"export_512_{form}_bytes"] = (folder_bytes(out) if os.path.isdir(out) else os.path.getsize(out), "bytes")
    return results


def plots():
    """Pictures of the same trace, 64 ranks, and of 8,192 ranks, a row a stage."""
    results = {}
    for name, preset, ranks in ("512", "qwen3-moe-512", ["--ranks=0-63"]), ("8192", "peer", []):
        for what in "timeline", "utilisation":
            for ending in "svg", "png":
                out = os.path.join(work, "picture." + ending)
                seconds = measure(prism("plot", trace_of(preset), "--what=" + what, "--output=" + out, *ranks))[0]
                results[f"plot_{name}_{what}_{ending}_seconds"] = (seconds, "s")
    return results


BENCHES = [reductions, payloads, predictions, synth, exports, plots]


def main():
    global build, work, environment
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("work")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="benchmarks whose function's name has this in it")
    options = parser.parse_args()
    build, work = os.path.abspath(options.build), options.work
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PRISM_")}
    failed = 0
    for bench in BENCHES:
        if options.only not in bench.__name__:
            continue
        values = {}
        try:
            for _ in range(options.repeat):
                for name, (value, unit) in bench().items():
                    values.setdefault(name, (unit, []))[1].append(value)
        except (Failed, OSError, ValueError, KeyError, IndexError) as e:
            print(f"bench: {bench.__name__}: {e}", file=sys.stderr, flush=True)
            failed = 1
        for name, (unit, seen) in values.items():
            print("FIGURE", name, unit, *(f"{v:.6g}" for v in seen), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
