#!/usr/bin/env bats
# The frame of `make bench`: not how fast anything is.

@test "figures become names, medians and ranges; a part that fails is named and the others go on" {
    local build=$BATS_TEST_TMPDIR/build/release out=$BATS_TEST_TMPDIR/bench.json
    # A build folder in which one program works.
    mkdir -p "$build/test"
    printf '#!/bin/sh\necho "GB/s sum prod"\necho "fp32 2.5 1"\necho "bf16 1.5 1"\n' >"$build/test/coll_bench_reduce"
    printf '#!/bin/sh\necho "FIGURE made_up_seconds s 3 1 2"\n' >"$build/test/bench_graph_run"
    chmod 755 "$build"/test/*
    run "$BATS_TEST_DIRNAME/../bench.sh" --build "$build" --output "$out"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"bench: plots:"* ]]
    [[ $output == *"bench: failed: "*"bench_engine.sh"* ]]
    python3 - "$out" <<'P'
import json, sys
j = json.load(open(sys.argv[1]))
assert (j["made_up_seconds"], j["made_up_seconds_low"], j["made_up_seconds_high"], j["made_up_seconds_unit"]) == (2, 1, 3, "s"), j
assert j["reduce_fp32_sum_bytes_per_second"] == 2.5e9 and j["reduce_bf16_sum_bytes_per_second"] == 1.5e9, j
assert j["machine_cores"] > 0 and j["machine_memory_bytes"] > 0 and j["commit"], j
P
}

@test "figures of real programs" {
    run "$BATS_TEST_DIRNAME/../bench_tools.py" "${PRISM_BUILD:-$BATS_TEST_DIRNAME/../../build/release}" "$BATS_TEST_TMPDIR" --only exports --repeat 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^FIGURE export_512_(csv|perfetto|chakra)_(seconds s|bytes bytes) [0-9.e+]+$' <<<"$output")" -eq 6 ]
}
