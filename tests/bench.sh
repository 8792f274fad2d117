#!/usr/bin/env bash
# bench.sh --build FOLDER: the benchmarks of the parts whose work grows with ranks, ops and bytes. Prints; asserts nothing.
# Lines `FIGURE name unit value…` (several values: repeats) end up in bench.json beside FOLDER (tests/bench_json).
set -u
build=build/release
[ "${1-}" = --build ] && build=$2
work=$(mktemp -d) || exit 71
trap 'rm -rf "$work"' EXIT
exec > >(tee "$work/log") 2>&1
echo "== engine: the preset peer, 8,192 ranks"
tests/bench_engine.sh "$build" "$work"
echo "== graph: max-plus evaluation, 1,024 ranks, 10 iterations"
"$build/test/bench_graph_run" 1024 10
echo "== coll: reductions"
"$build/test/coll_bench_reduce"
echo "== trace: 1 GiB of payloads, 2 threads"
"$build/test/bench_payload" "$work" 1024 2
if command -v slurmctld /usr/sbin/slurmctld >/dev/null && [ -e "$build/lib/slurm/spank_prism.so" ]; then
    echo "== slurm: a plain job with and without the plugins"
    tests/slurm/plain_cost "$build"
fi
tests/bench_json "$(dirname "$build")/bench.json" <"$work/log"
echo "== wrote $(dirname "$build")/bench.json"
