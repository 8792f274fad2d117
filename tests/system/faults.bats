#!/usr/bin/env bats
# What goes wrong while `prism run` works: the program's output and exit code come through, the other ranks end, nothing
# stays behind, and a trace that is not whole is marked so.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# A trace that has all that PHASE needs.   prepare PHASE [ITERATIONS]
prepare() {
    rm -f fault
    case $1 in
        capture) return 0 ;;
        calibrate) looper_run capture "${2:-40}" 20 ;;
        emulate) looper_run auto "${2:-40}" 20 ;;
    esac
    [ "$status" -eq 0 ] || { echo "preparing $1: exit code $status: $errors"; return 1; }
}

incomplete() {
    [ ! -e trace/trace.json ] || grep -q '"complete": *false' trace/trace.json
}

crashes_in() {
    prepare "$1"
    echo 'crash 2 3' >fault
    looper_run "$1" 40 20
    # As a shell tells it: 128 + SIGSEGV; 67 where Prism speaks for the rank.
    [ "$status" -eq 139 ] || [ "$status" -eq 67 ] || { echo "exit code $status: $errors"; return 1; }
    grep -qE 'rank 2.*(signal|SIGSEGV|Segmentation)' <<<"$errors"
    [ "$1" != capture ] || incomplete
    nothing_left
}

@test "a rank crashes in capture" { crashes_in capture; }
@test "a rank crashes in calibration" { crashes_in calibrate; }
@test "a rank crashes in emulation" {
    crashes_in emulate
    grep -q 'rank 2 iteration 2 sum' <<<"$output"
}

leaves_in() {
    prepare "$1"
    echo 'exit 2 3 17' >fault
    looper_run "$1" 40 20
    [ "$status" -eq 17 ] || { echo "exit code $status: $errors"; return 1; }
    grep -qE 'rank 2' <<<"$errors"
    [ "$1" != capture ] || incomplete
    nothing_left
}

@test "a rank leaves early in capture" { leaves_in capture; }
@test "a rank leaves early in calibration" { leaves_in calibrate; }
@test "a rank leaves early in emulation" {
    leaves_in emulate
    grep -q 'rank 2 leaves early' <<<"$output"
}

signalled_in() { # PHASE SIGNAL CODE
    prepare "$1"
    # Rank 2 hangs, so that it does not end before the signal.
    echo 'hang 2 3' >fault
    export PRISM_STALL_SECONDS=0
    start_foreground "$prism" run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace \
        --phase="$1" -- "$looper" fault 40 20
    local until=$((SECONDS + 120)) progress=trace/logs/$1.rank0
    [ "$1" != emulate ] || progress=.stdout
    until grep -qs 'rank 0 iteration 2' "$progress"; do
        [ "$SECONDS" -lt "$until" ] || { cat .stderr; return 1; }
        sleep 0.1
    done
    # A terminal's Ctrl-C goes to the whole foreground group.
    if [ "$2" = INT ]; then kill -INT -- "-$started"; else kill "-$2" "$started"; fi
    await_started 60
    [ "$code" = "$3" ] || { echo "exit code $code: $(cat .stderr)"; return 1; }
    [ "$1" != capture ] || incomplete
    nothing_left
}

@test "Ctrl-C in capture" { signalled_in capture INT 130; }
@test "Ctrl-C in calibration" { signalled_in calibrate INT 130; }
@test "Ctrl-C in emulation" { signalled_in emulate INT 130; }
@test "prismd killed in capture" { signalled_in capture KILL 137; }
@test "prismd killed in calibration" { signalled_in calibrate KILL 137; }
@test "prismd killed in emulation" { signalled_in emulate KILL 137; }
@test "SIGTERM in capture" { signalled_in capture TERM 143; }
@test "SIGTERM in emulation" { signalled_in emulate TERM 143; }

@test "a program that never calls NCCL" {
    run_prism run --emulate=4 --gpus-per-node=4 --trace=trace -- "$PRISM_BUILD/test/silent"
    refused 66 'NCCL'
    grep -q 'nothing to reduce' <<<"$output" || true
    nothing_left
}

@test "a program that fails before it calls NCCL keeps its exit code" {
    run_prism run --emulate=4 --gpus-per-node=4 --trace=trace -- "$PRISM_BUILD/test/silent" 9
    [ "$status" -eq 9 ] || { echo "exit code $status: $errors"; return 1; }
    nothing_left
}

@test "a statically linked program" {
    run_prism run --emulate=4 --gpus-per-node=4 --trace=trace -- "$PRISM_BUILD/test/silent-static"
    refused 66 'static'
    nothing_left
}

@test "a sandbox rank that ends early with code 0" {
    prepare emulate
    echo 'exit 2 3 0' >fault
    looper_run emulate 40 20
    [ "$status" -eq 67 ] || [ "$status" -eq 70 ] || { echo "exit code $status: $errors"; return 1; }
    nothing_left
}

@test "a live rank that waits in the store for what no capture has seen" {
    LIMIT=120 run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace --phase=capture -- "$PRISM_BUILD/test/replica" absent 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    REPLICA_KEY=turn/7 PRISM_STALL_SECONDS=1 LIMIT=120 run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace \
        -- "$PRISM_BUILD/test/replica" absent 1
    refused 69 'rank 0 waits in the c10d store for "turn/7", which nobody sets'
    nothing_left
}
