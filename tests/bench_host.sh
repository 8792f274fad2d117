#!/usr/bin/env bash
# bench_host.sh BUILD WORK: what Prism costs the host: recording and writing the trace, an operation; the preload library, an
# NCCL call on software GPUs (a communicator of two, of one without Prism); capture of large operations. Prints FIGURE lines: of
# calls the tenth percentile, the median, the ninetieth.
set -eu
build=$(cd "$1" && pwd) work=$2
source=$(cd "$(dirname "$0")" && pwd)
export PATH=$build/bin:$PATH LD_LIBRARY_PATH=$build/lib/softgpu SOFTGPU_DIR=$work/softgpu
mkdir -p "$SOFTGPU_DIR"
prism synth qwen3-moe-512 -o "$work/write" >/dev/null
"$build/test/bench_write" "$work/write/graph.bin" "$work"

# figure NAME FILE…: of rank 0's AllReduce
figure() {
    local name=$1
    shift
    sed -n 's/^cost rank 0: AllReduce *\([0-9]*\) ns a call (p10 \([0-9]*\), p90 \([0-9]*\);.*/\2 \1 \3/p' "$@" | tail -n 1 |
        while read -r line; do echo "FIGURE $name ns $line"; done | grep . || { echo "no line of $name" >&2; return 1; }
}
cd "$work"
"$build/test/gpu_cost" >plain.txt
timeout 300 prism run --emulate=2 --sandbox=0 --trace="$work/cost" --network="$source/fixtures/network.json" -- "$build/test/gpu_cost" >emulated.txt 2>run.txt ||
    { cat run.txt >&2; exit 1; }
figure nccl_nanoseconds_per_call plain.txt
figure preload_capture_nanoseconds_per_call cost/logs/capture.rank0
figure preload_nanoseconds_per_call emulated.txt

# Operations of 64 MiB: bytes of sums a second that capture gets through, from the start of prism run until the trace is on disk; of
# exchanges among four ranks, which keep nothing, from the first until the last.
sum_bytes=$((64 << 20)) rounds=4 sums=20 # a round of gpu_volume, and one to warm up, is four sums
for kind in noise halves; do
    values=
    for _ in 1 2 3; do
        began=$(date +%s%N)
        timeout 300 prism run --emulate=2 --sandbox=0 --phase=capture --trace="$work/large" -- "$build/test/gpu_volume" $kind $((sum_bytes >> 20)) $rounds >/dev/null 2>run.txt ||
            { cat run.txt >&2; exit 1; }
        values+=" $((sums * sum_bytes * 1000 / (($(date +%s%N) - began) / 1000000)))"
        rm -r "$work/large"
    done
    echo "FIGURE capture_large_${kind}_bytes_per_second bytes/s$values"
done
values=
for _ in 1 2 3; do
    timeout 300 prism run --emulate=4 --sandbox=0 --phase=capture --payload=control --trace="$work/large" -- "$build/test/gpu_volume" exchange 64 20 \
        >/dev/null 2>run.txt || { cat run.txt >&2; exit 1; }
    values+=" $(sed -n 's/.*, \([0-9]*\) bytes a second.*/\1/p' "$work/large/logs/capture.rank0")"
    rm -r "$work/large"
done
echo "FIGURE capture_exchange_bytes_per_second bytes/s$values"
