#!/usr/bin/env bats
# Iterations by the program's NVTX ranges, where the user names one: what periodicity cannot tell.

load common

setup() { common_setup; }
teardown() { common_teardown; }

export PYTHONDONTWRITEBYTECODE=1
ranges=$PRISM_BUILD/test/ranges
by_ranges="by the program's NVTX ranges"

# captured TRACE ARGUMENTS… (PRISM_ITERATION_RANGE of the caller) -- PROGRAM…
captured() {
    local trace=$1
    shift
    LIMIT=100 run_prism run --gpus-per-node=4 --sandbox=0 --assistants=0 --phase=capture --trace="$trace" "$@"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
}

# Groups of operations in each iteration of each rank of TRACE, and in front: one line each.
groups_of() {
    python3 -c '
import sys
sys.path.insert(0, sys.argv[1])
import graph_check
_, ranks = graph_check.read(sys.argv[2])
for number, rank in sorted(ranks.items()):
    bounds = (0, *rank.iterations, len(rank.nodes))
    print(number, *(sum(n[0] == graph_check.COMM for n in rank.nodes[a:b]) for a, b in zip(bounds, bounds[1:])))' "$BATS_TEST_DIRNAME" "$1/graph.bin"
}

expect_groups() { # TRACE RANKS GROUPS…
    local trace=$1 ranks=$2 rank
    shift 2
    for ((rank = 0; rank < ranks; rank++)); do echo "$rank $*"; done | diff - <(groups_of "$trace")
}

# The broadcast in front, iterations, what comes behind the last. Without ranges three iterations and their validation look like one.
@test "a validation behind every third iteration" {
    export PRISM_ITERATION_RANGE="iteration 0" # any number stands for all
    captured named --emulate=4 -- "$ranges" validates 7 named
    grep -q "7 iterations ($by_ranges)" <<<"$errors"
    expect_groups named 4 1 2 2 6 2 2 6 2 0
    PRISM_ITERATION_RANGE="forward 0" captured parts --emulate=4 -- "$ranges" validates 7 parts
    expect_groups parts 4 1 2 2 6 2 2 6 2 0
    captured plain --emulate=4 -- "$ranges" validates 7 plain
    expect_groups plain 4 1 10 10 2
    absent "$by_ranges" - <<<"$errors"
    run_prism verify named
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    nothing_left
}

# Libraries name micro-batches and layers: what nobody has asked for is not looked at, and not told.
@test "ranges that nobody asked for are none" {
    captured named --emulate=4 -- "$ranges" validates 7 named
    expect_groups named 4 1 10 10 2
    absent "$by_ranges" - <<<"$errors"
    absent NVTX_INJECTION64_PATH named/trace.json
    PRISM_ITERATION_RANGE="nothing of this name" captured other --emulate=4 -- "$ranges" validates 7 named
    expect_groups other 4 1 10 10 2
    nothing_left
}

# Without ranges a part of four iterations is found twice, and called one.
@test "another number of micro-batches in every iteration" {
    PRISM_ITERATION_RANGE="iteration 0" captured named --emulate=4 -- "$ranges" micro 7 named
    grep -q "7 iterations ($by_ranges)" <<<"$errors"
    expect_groups named 4 1 2 5 4 3 2 5 4 0
    captured plain --emulate=4 -- "$ranges" micro 7 plain
    [ "$(groups_of plain | wc -w)" -ne 40 ]
    nothing_left
}

@test "ranges of one rank only are none of the world's" {
    PRISM_ITERATION_RANGE="iteration 0" captured lonely --emulate=4 -- "$ranges" validates 7 lonely
    expect_groups lonely 4 1 10 10 2
    absent "$by_ranges" - <<<"$errors"
    nothing_left
}

@test "NVIDIA's own NVTX in the program" {
    [ -x "${ranges}_real" ] || skip "no NVTX headers here"
    PRISM_ITERATION_RANGE="iteration 0" captured named --emulate=4 -- "${ranges}_real" validates 7 named
    expect_groups named 4 1 2 2 6 2 2 6 2 0
    nothing_left
}

@test "PyTorch's NVTX" {
    python3 -c 'import torch; torch.cuda.nvtx.range_push("a"); torch.cuda.nvtx.range_pop()' 2>/dev/null || skip "no PyTorch with NVTX here"
    NVTX_INJECTION64_PATH=$PRISM_BUILD/lib/libprism.so PRISM_SOCKET=none PRISM_RANK=0 LD_PRELOAD=$PRISM_BUILD/lib/libprism.so python3 -c '
import torch
assert torch.cuda.nvtx.range_push("a") == 0 and torch.cuda.nvtx.range_push("b") == 1
assert torch.cuda.nvtx.range_pop() == 1 and torch.cuda.nvtx.range_pop() == 0'
}

@test "the user's own tool for NVTX stays, and periodicity finds what it finds" {
    cat >tool.sh <<'T'
#!/bin/bash
echo "tool $NVTX_INJECTION64_PATH"
exec "$@"
T
    chmod +x tool.sh
    export NVTX_INJECTION64_PATH=/nonexistent/libtool.so PRISM_ITERATION_RANGE="iteration 0"
    captured own --emulate=4 -- ./tool.sh "$ranges" validates 7 named
    grep -q 'NVTX_INJECTION64_PATH is set: ranges are not told to Prism, and PRISM_ITERATION_RANGE=iteration 0 is without effect' <<<"$errors"
    absent "$by_ranges" - <<<"$errors"
    grep -qx 'tool /nonexistent/libtool.so' own/logs/capture.rank3
    expect_groups own 4 1 10 10 2
    unset NVTX_INJECTION64_PATH
    captured ours --emulate=4 -- ./tool.sh "$ranges" validates 7 named
    grep -q '^tool .*/libprism.so$' ours/logs/capture.rank3
    expect_groups ours 4 1 2 2 6 2 2 6 2 0
    nothing_left
}

@test "the whole way: seven iterations are calibrated, predicted and emulated" {
    export PRISM_ITERATION_RANGE="iteration 0"
    LIMIT=200 run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace \
        --network="$PRISM_SOURCE/tests/fixtures/network.json" -- "$ranges" validates 7 named
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -qx 'rank 0 done' <<<"$output"
    python3 -c '
import json
r = json.load(open("trace/report.json"))
assert len(r["predicted_seconds"]["iterations"]) == 7 and len(r["iteration_seconds"]["0"]) == 7, r'
    nothing_left
}

@test "capture ends early, after iterations that differ" {
    PRISM_ITERATION_RANGE="iteration 0" captured few --emulate=4 --iterations=2 -- "$ranges" validates 1000 named 50
    grep -q 'every rank has done its iterations' <<<"$errors"
    expect_groups few 4 1 2 2 0
    [ "$(cat few/logs/capture.rank* | grep -c done)" -eq 0 ]
    nothing_left
}

# By what repeats, then; and the user is told.
@test "capture ends early where the named range is not there" {
    PRISM_ITERATION_RANGE="of no program" captured few --emulate=4 --iterations=2 -- "$looper" fault 100000 5
    grep -q 'every rank has done its iterations' <<<"$errors"
    grep -q 'PRISM_ITERATION_RANGE=of no program: ranks have no such NVTX ranges' <<<"$errors"
    nothing_left
}

@test "folded: absent ranks have their representative's ranges" {
    export PRISM_ITERATION_RANGE="iteration 0"
    captured folded --emulate=8 --layout=dp:8 --fold=dp -- "$ranges" validates 7 named
    [ "$(ls folded/logs | wc -l)" -eq 1 ]
    captured full --emulate=8 -- "$ranges" validates 7 named
    expect_groups folded 8 1 2 2 6 2 2 6 2 0
    "$PRISM_BUILD/test/fold_compare" folded/graph.bin full/graph.bin
    nothing_left
}
