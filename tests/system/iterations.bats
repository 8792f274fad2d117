#!/usr/bin/env bats
# --iterations=K: capture and calibration end early, and that is success.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# Losses are bit-equal for the iterations that were captured; later ones repeat the last of them.
@test "a trainer that would go on: its first iterations are captured, the last of them goes round" {
    export SOFTGPU_TIME_SCALE=1
    local options=(--tp=2 --pp=2 --ep=2 --micro-batches=4 --iterations=120 --cost-scale=2 --exact-sums --print-ranks=all)
    LIMIT=300 run_prism run --emulate=8 --gpus-per-node=4 --sandbox=0,4 --assistants=0 --trace=trace --iterations=2 \
        --network="$PRISM_SOURCE/tests/fixtures/network.json" -- "$moetrain" "${options[@]}"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -q 'capture: every rank has done its iterations' <<<"$errors"
    absent peak_memory trace/logs/capture.rank* trace/logs/calibrate.rank*
    SOFTGPU_TIME_SCALE=0.05 timeout 300 "$launch" -g 4 8 -- "$moetrain" "${options[@]}" >plain
    bits() { sed -nE "s/^rank 4 iteration $1 .*(loss_bits.*)/\1/p"; }
    for i in 0 1; do
        [ -n "$(bits $i <plain)" ]
        [ "$(bits $i <plain)" = "$(bits $i <<<"$output")" ]
    done
    [ "$(bits 119 <<<"$output")" = "$(bits 1 <<<"$output")" ]
    run_prism info trace --json
    python3 -c 'import json, sys; r = json.load(sys.stdin); assert r["complete"] and r["calibrated"] and r["iterations"] == 2, r' <<<"$output"
    run_prism verify trace
    [ "$status" -eq 0 ]
    python3 -c '
import json
r = json.load(open("trace/report.json"))
assert len(r["iteration_seconds"]["0"]) == 120 and len(r["predicted_seconds"]["iterations"]) == 2, r
assert r["numerics"] == "exact 1-2, looped after", r
# The first of two is start-up, and what is looped is the second.
assert abs(r["predicted_seconds"]["mean"] - r["predicted_seconds"]["iterations"][1]) < 1e-9, r
seconds = [sum(s[1:]) / 119 for s in r["iteration_seconds"].values()]
mean = r["predicted_seconds"]["mean"]
assert abs(abs(sum(seconds) / len(seconds) / mean - 1) - r["prediction_error"]) < 1e-6, r'
    nothing_left
}

# Of a program that goes on for an hour; two slices of one rank. What the ranks do of their own behind what was recorded ends a slice.
@test "calibration ends by the trace's iterations, whatever the program does behind them" {
    export SOFTGPU_DEVICES=1
    local options=(run --emulate=2 --sandbox=0 --assistants=0 --trace=trace) what said
    LIMIT=100 run_prism "${options[@]}" --iterations=2 --phase=capture -- "$looper" fault 180000 20 other
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    for what in none wait make use; do
        echo "$what 0 6" >fault
        LIMIT=100 run_prism "${options[@]}" --phase=calibrate -- "$looper" fault 180000 20 other
        [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
        [ "$(grep -c 'slice: every rank has done its iterations' <<<"$errors")" -eq 2 ]
        case $what in
            none) said= ;;
            wait) said='it waits in the c10d store for looper/nobody' ;;
            make) said='it makes communicator 2, but made only 2 in capture' ;;
            use) said='communicator 1 is used after the recorded iterations, and not in the last of them' ;;
        esac
        if [ -n "$said" ]; then
            [ "$(grep -c "rank 0 does not go on 4 iterations behind the trace's ($said" <<<"$errors")" -eq 1 ]
        else
            absent 'does not go on' - <<<"$errors"
        fi
    done
    run_prism info trace --json
    python3 -c 'import json, sys; r = json.load(sys.stdin); assert r["calibrated"] and r["iterations"] == 2, r' <<<"$output"
    nothing_left
}

@test "a program that ends before is captured whole" {
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace --iterations=50 --phase=capture \
        -- "$looper" fault 5 1
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -q '"iterations": *5' trace/trace.json
    nothing_left
}

@test "a program that takes no notice of SIGTERM is ended all the same" {
    cat >stubborn <<'S'
#!/bin/bash
trap '' TERM
exec "$@"
S
    chmod +x stubborn
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace --iterations=1 --phase=capture \
        -- ./stubborn "$looper" fault 200 40
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -q '"complete": *true' trace/trace.json
    grep -q '"iterations": *1' trace/trace.json
    nothing_left
}
