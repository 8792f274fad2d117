#!/usr/bin/env bats
# The accuracy harness proves itself: an error planted into the trace must make it fail.

load common

setup() { common_setup; }
teardown() { common_teardown; }

planted() {
    run timeout 540 "$PRISM_SOURCE/tests/accuracy/run" --build "$PRISM_BUILD" --plant "$1" --time-scale 1 \
        --output "$BATS_TEST_TMPDIR/accuracy.json"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q "planted $1: caught" <<<"$output"
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["passed"])' "$BATS_TEST_TMPDIR/accuracy.json"
    nothing_left
}

@test "5 % more in one work value" { planted work; }
@test "one wrong bit in a payload" { planted payload; }
