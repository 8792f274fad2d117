#!/usr/bin/env bats
# Communicators that ranks make in different orders, in one group or by several threads: NCCL makes them all at once.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# All phases, of both ranks and of one with an assistant; what is printed is the plain run's.   all_phases HOW
all_phases() {
    timeout 60 "$launch" 2 -- "$PRISM_BUILD/test/crossing" "$1" | sort >plain
    diff plain <(printf 'rank %s: %s\n' '0 communicator 0' 12 '0 communicator 1' 92 '1 communicator 0' 12 '1 communicator 1' 92)
    run_prism run --emulate=2 --sandbox=0,1 --assistants=0 --trace=paced -- "$PRISM_BUILD/test/crossing" "$1"
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    diff plain <(grep -E '^rank [01] ' <<<"$output" | sort)
    run_prism run --emulate=2 --assistants=1 --trace=real -- "$PRISM_BUILD/test/crossing" "$1"
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    diff <(grep '^rank 0' plain) <(grep '^rank 0' <<<"$output" | sort)
    nothing_left
}

@test "two communicators made in one group, in opposite orders" {
    all_phases group
}

# Their numbers are those of the calls, which come in the same order in every phase.
@test "two communicators made by two threads, in opposite orders" {
    all_phases threads
}
