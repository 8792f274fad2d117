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

# Each has a ballast that the device has no room for; the group's handles are nobody's then.
@test "communicators of a group for which there is no memory leave handles that are invalid, not memory that was given back" {
    export PRISM_BUILD
    local version
    version=$(python3 -c 'import ctypes, os
v = ctypes.c_int()
ctypes.CDLL(os.environ["PRISM_BUILD"] + "/lib/softgpu/libnccl.so.2").ncclGetVersion(ctypes.byref(v))
print(v.value)')
    run_prism run --emulate=2 --assistants=0 --trace=trace -- "$PRISM_BUILD/test/crossing" refused
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    echo '{"format": "prism-ballast", "version": 1, "nccl": '"$version"', "process_bytes": 0, "channels": 0,
        "sizes": [{"size": 2, "bytes": 4398046511104}]}' >ballast.json
    PRISM_BALLAST=$PWD/ballast.json run_prism run --phase=emulate --emulate=2 --assistants=0 --trace=trace -- "$PRISM_BUILD/test/crossing" refused
    [ "$status" -eq 5 ] || { echo "$errors"; return 1; }
    [ "$(grep -c '^rank 0: aborting no communicator' <<<"$output")" -eq 2 ]
    nothing_left
}
