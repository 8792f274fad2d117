#!/usr/bin/env bats
# Ranks that need what another live one does behind its first gate: communicators made when they are first used, as PyTorch does.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# All four ranks are calibrated at once, then ranks 0 and 2 run, which are the two ends of a pipeline.
emulate() { # TRACE [options...]
    LIMIT=100 run_prism run --emulate=4 --sandbox=0,2 --trace="$1" "${@:2}" -- "$PRISM_BUILD/test/lazy" 4
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ "$(grep -E '^rank [0-3]: ' <<<"$output" | sort)" = $'rank 0: 8\nrank 2: 16' ]
}

@test "a live rank that waits for another's first communicator does not hold up the replay" {
    emulate paced
    nothing_left
}

@test "the same with real communication" {
    emulate nccl --assistants=1
    nothing_left
}
