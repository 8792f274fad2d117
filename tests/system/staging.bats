#!/usr/bin/env bats
# Operations of any size, whatever PRISM_STAGING says: it bounds what operations in flight take together, for those who can wait.

load common

setup() {
    common_setup
    export PRISM_STAGING=$((2 << 20))
}
teardown() { common_teardown; }

# Capture of two ranks, calibration and emulation of both; what they print is the plain run's.   all_phases MODE MIB
all_phases() {
    timeout 100 "$launch" 2 -- "$PRISM_BUILD/test/large" "$@" | sort >plain
    LIMIT=100 run_prism run --emulate=2 --sandbox=0,1 --assistants=0 --trace=trace -- "$PRISM_BUILD/test/large" "$@"
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ -s plain ]
    diff plain <(grep -E '^rank [01]: ' <<<"$output" | sort)
    nothing_left
}

@test "operations of 80 MiB where a rank's may take 2" {
    all_phases one 40
    grep -x 'rank 0: 4 4' plain
}

@test "two ranks issue on two streams in opposite orders, more than may be in flight" {
    all_phases crossed 1
    diff plain <(printf 'rank %s: %s\n' 0 '4 4' 0 '8 8' 1 '4 4' 1 '8 8')
}

# The shared memory is address space and as long a file: it adapts to what there is of both.
@test "limits of address space and of files are kept to" {
    ulimit -S -v $((400 << 20)) -f $((20 << 20))
    all_phases one 1
}
