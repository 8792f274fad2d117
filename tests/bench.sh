#!/usr/bin/env bash
# bench.sh --build FOLDER [--output FILE]: the benchmarks of the parts whose work grows with ranks, ops and bytes. Prints; asserts nothing.
# Lines `FIGURE name unit value…` (several values: repeats) end up in FILE, by default bench.json beside FOLDER (tests/bench_json).
# BENCH_WORLDS: unfolded worlds that are run whole (default 512,2048; 8192 takes five minutes more).
# A part that fails is named, the others go on, and the exit code is 1.
set -u
build=build/release output=
while [ $# -gt 1 ]; do
    case $1 in
        --build) build=$2 ;;
        --output) output=$2 ;;
    esac
    shift 2
done
output=${output:-$(dirname "$build")/bench.json}
top=$(dirname "$0")/..
work=$(mktemp -d) || exit 71
trap 'rm -rf "$work"' EXIT

# part TITLE COMMAND…
part() {
    echo "== $1"
    shift
    "$@" || { echo "bench: failed: $*"; failed=1; }
}

parts() {
    failed=0
    part "engine: the preset peer, 8,192 ranks" "$top/tests/bench_engine.sh" "$build" "$work"
    part "host: recording an operation, an NCCL call" "$top/tests/bench_host.sh" "$build" "$work"
    part "graph: max-plus evaluation, 1,024 ranks, 10 iterations" "$build/test/bench_graph_run" 1024 10
    for world in 512 2048 8192; do
        part "graph: the replay condensed, $world ranks" "$build/test/bench_condense" $world $world
    done
    part "worlds, export, plot, payloads, reductions" "$top/tests/bench_tools.py" "$build" "$work"
    if command -v slurmctld /usr/sbin/slurmctld >/dev/null && [ -e "$build/lib/slurm/spank_prism.so" ]; then
        part "slurm: a plain job with and without the plugins" "$top/tests/slurm/plain_cost" "$build"
        part "worlds, folded, from nothing to the report" "$top/tests/scale/run" --build "$build" --fold yes --worlds 8192
        part "worlds, from nothing to the report" "$top/tests/scale/run" --build "$build" --worlds "${BENCH_WORLDS:-512,2048}"
    fi
    return "$failed"
}

parts 2>&1 | tee "$work/log"
failed=${PIPESTATUS[0]}
"$top/tests/bench_json" "$output" <"$work/log" || exit
echo "== wrote $output"
exit "$failed"
