#!/usr/bin/env bats
# Bad options of `prism run`: one line that names the option, exit code 64, nothing left behind.

load common

setup() { common_setup; }
teardown() { common_teardown; }

bad() { # bad PATTERN options…
    local pattern=$1
    shift
    run_prism run "$@" -- "$looper" fault 3
    refused 64 "$pattern"
    one_line
    [ ! -e prism-trace ]
    nothing_left
}

@test "no world, no program" {
    bad 'emulate'
    run_prism run --emulate=4
    refused 64 'program'
    one_line
}

@test "--emulate that is no number, zero, negative, too large" {
    bad '--emulate.*many' --emulate=many
    bad '--emulate.*12x' --emulate=12x
    bad '--emulate' --emulate=0
    bad '--emulate' --emulate=-8
    bad '--emulate' --emulate=99999999999999999999
    bad '--emulate' --emulate=
}

@test "--emulate that is no multiple of --gpus-per-node where nodes are implied" {
    bad 'emulate.*12.*multiple|multiple.*12' --emulate=12 --gpus-per-node=8
}

@test "--gpus-per-node zero or malformed" {
    bad 'gpus-per-node' --emulate=4 --gpus-per-node=0
    bad 'gpus-per-node' --emulate=4 --gpus-per-node=eight
}

@test "--sandbox outside the world, twice, malformed" {
    bad 'sandbox.*16|16.*sandbox' --emulate=16 --sandbox=16
    bad 'sandbox.*twice' --emulate=16 --sandbox=1,1
    bad 'sandbox.*twice' --emulate=16 --sandbox=0-4,3
    bad 'sandbox' --emulate=16 --sandbox=1,,2
    bad 'sandbox' --emulate=16 --sandbox=4-2
    bad 'sandbox' --emulate=16 --sandbox=a
    bad 'sandbox' --emulate=16 --sandbox=
    bad 'sandbox' --emulate=16 --sandbox=1-
}

@test "values that are none of those allowed" {
    bad 'phase.*later' --emulate=4 --phase=later
    bad 'payload.*some' --emulate=4 --payload=some
    bad 'on-divergence.*ignore' --emulate=4 --on-divergence=ignore
    bad 'assistants' --emulate=4 --assistants=-2
    bad 'assistants' --emulate=4 --assistants=x
    bad 'slices' --emulate=4 --slices=0
    bad 'iterations' --emulate=4 --iterations=none
    bad 'layout' --emulate=16 --layout=tp:0
    bad 'layout' --emulate=16 --layout=tp8
    bad 'layout' --emulate=16 --layout=tp:8,dp:4
    bad 'fold' --emulate=16 --layout=tp:8,dp:2 --fold=pp
    bad 'fold' --emulate=16 --fold=dp
}

@test "--network that is not there" {
    bad 'network.*nowhere' --emulate=4 --network=nowhere.json
}

# One device has no link to another. What it means for the phases that need none of it: nothing.
@test "no network profile, and one device, which cannot measure one: said before anything runs" {
    unset PRISM_NETWORK
    export SOFTGPU_DEVICES=1
    run_prism run --emulate=2 --trace=trace -- "$looper" fault 3
    refused 64 'no network profile.*one device.*--prism-network=FILE'
    [ -z "$output" ]
    absent 'capture' - <<<"$errors"
    run_prism run --emulate=2 --trace=trace --phase=capture -- "$looper" fault 3
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    run_prism run --emulate=2 --trace=trace -- "$looper" fault 3
    refused 64 'no network profile.*one device'
    run_prism info trace --json
    grep -q '"complete": true' <<<"$output"
    run_prism run --emulate=1 --trace=alone -- "$looper" fault 3
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    nothing_left
}

@test "an option that does not exist, one without its value" {
    bad 'frobnicate' --frobnicate
    bad 'trace' --emulate=4 --trace
}

@test "a program that does not exist" {
    run_prism run --emulate=4 -- ./not-there
    refused 64 'not-there'
    one_line
    nothing_left
}

@test "unknown command, help, version" {
    run_prism frobnicate
    refused 64 'frobnicate'
    run_prism --help
    [ "$status" -eq 0 ]
    help=$output
    for command in run report info verify predict export doctor; do
        grep -qE "^  $command +[a-z]" <<<"$help"
        LIMIT=10 run_prism "$command" --help
        [ "$status" -eq 0 ]
        grep -q "prism $command" <<<"$output"
    done
    run_prism --version
    [ "$status" -eq 0 ]
}
