#!/usr/bin/env bats
# The harness of tests/gpu on machines without a GPU: it must find planted differences, and its whole path runs on software
# GPUs with the example trainer as the program.

load common

setup() { common_setup; }
teardown() { common_teardown; }

drive() { # folder of programs
    run timeout 200 "$PRISM_SOURCE/tests/gpu/run" --soft --bin "$1" --lib "$PRISM_BUILD/lib" --out out --stages programs,pacing \
        --network "$PRISM_NETWORK" --programs pp --budget 180
    echo "$output"
}

@test "comparisons find a planted difference" {
    run timeout 60 python3 "$PRISM_SOURCE/tests/gpu/test/test_harness.py"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^OK$' <<<"$output"
}

@test "the driver captures, calibrates and emulates" {
    drive "$PRISM_BUILD/bin"
    [ "$status" -eq 0 ]
    python3 - <<'P'
import json
result = json.load(open("out/results.json"))
row = result["stages"]["programs"]["rows"][0]
assert row["passed"] and row["comparisons"]["real-emulated"]["bits_equal"] and row["report"]["world"] == 4, row
assert len(row["numbers"]["captured"]) == 4 and len(row["numbers"]["real"]["3"]["seconds"]) == 4
assert result["stages"]["pacing"]["rows"][0]["pacing_us"]["gates"] > 0
P
    [ -s out/logs.tgz ]
    nothing_left
}

@test "a program that computes something else under Prism is found" {
    mkdir bin
    ln -s "$PRISM_BUILD"/bin/* bin/
    rm bin/moetrain
    printf '#!/bin/sh\nexec "%s" "$@" ${PRISM_SOCKET:+--seed=77}\n' "$moetrain" >bin/moetrain
    chmod +x bin/moetrain
    drive "$PWD/bin"
    [ "$status" -eq 1 ]
    grep -q 'real-emulated: losses differ by' <<<"$output"
    nothing_left
}

@test "an unknown stage is one line and exit code 64" {
    run "$PRISM_SOURCE/tests/gpu/run" --stages nonsense
    [ "$status" -eq 64 ]
    [ "$output" = "tests/gpu/run: no stage 'nonsense'; --list names them" ]
}
