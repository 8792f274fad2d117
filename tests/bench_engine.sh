#!/usr/bin/env bash
# bench_engine.sh BUILD WORK: the preset `peer` (8,192 ranks) written, evaluated, and predicted from a cold file. Prints FIGURE lines.
set -eu
build=$1 work=$2
trace=$work/peer
"$build/bin/prism" synth peer -o "$trace" >/dev/null
echo "FIGURE trace_8192_bytes bytes $(find "$trace" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
blocks=$("$build/bin/prism" info --json "$trace" | grep -o '"blocks": *[0-9]*' | grep -o '[0-9]*$')
echo "FIGURE trace_8192_blocks blocks $blocks"
"$build/test/bench_engine" "$trace/graph.bin"
# Seconds and peak memory of a command, its file out of the page cache before each run.
python3 - "$trace/graph.bin" "$build/bin/prism" predict "$trace" <<'EOF'
import os, resource, subprocess, sys, time

path, argv = sys.argv[1], sys.argv[2:]
seconds = []
for _ in range(5):
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begin = time.monotonic()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    seconds.append(time.monotonic() - begin)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print("FIGURE predict_8192_seconds s", *(f"{s:.3f}" for s in seconds))
print("FIGURE predict_8192_processor_seconds s", f"{(usage.ru_utime + usage.ru_stime) / len(seconds):.3f}")
print("FIGURE predict_8192_rss_bytes bytes", usage.ru_maxrss * 1024)
EOF
