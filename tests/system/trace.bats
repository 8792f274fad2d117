#!/usr/bin/env bats
# Traces that cannot be used: exit code 65, the folder is named, nothing left behind.

load common

setup() { common_setup; }
teardown() { common_teardown; }

@test "emulation without a trace" {
    looper_run emulate
    refused 65 'trace'
    nothing_left
}

@test "a trace that cannot be made" {
    echo in-the-way >trace
    looper_run capture
    refused 65 'trace'
    nothing_left
    rm trace
    if [ "$(id -u)" -ne 0 ]; then
        mkdir closed
        chmod 500 closed
        run_prism run --emulate=4 --gpus-per-node=4 --trace=closed/trace -- "$looper" fault 3
        refused 65 'closed'
        nothing_left
    fi
}

@test "a trace of another program, of another world, damaged" {
    looper_run capture 4 1
    [ "$status" -eq 0 ]
    run_prism verify trace
    [ "$status" -eq 0 ]

    run_prism run --emulate=4 --gpus-per-node=4 --trace=trace --phase=emulate -- "$looper" fault 5
    refused 65 'program'
    nothing_left

    run_prism run --emulate=8 --gpus-per-node=4 --trace=trace --phase=emulate -- "$looper" fault 4 1
    refused 65 'world|ranks'
    nothing_left

    for file in trace/graph.bin trace/trace.json; do
        cp "$file" saved
        head -c 40 saved >"$file"
        looper_run emulate 4 1
        refused 65 'trace'
        run_prism verify trace
        refused 65 '.'
        cp saved "$file"
    done
    nothing_left
}

@test "an incomplete trace is refused by emulation" {
    echo 'crash 1 2' >fault
    looper_run capture 6 1
    [ "$status" -ne 0 ]
    rm fault
    looper_run emulate 6 1
    refused 65 'incomplete|complete'
    nothing_left
}

@test "info, verify, predict on what is no trace" {
    for command in info verify predict; do
        run_prism "$command" nowhere
        refused 65 'nowhere'
        run_prism "$command"
        refused 64 'trace|TRACE'
    done
}
