#!/usr/bin/env bats
# `prism doctor` on software GPUs, and its measurement of the network.

load common

setup() { common_setup; }
teardown() { common_teardown; }

@test "doctor finds everything on software GPUs" {
    run_prism doctor
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    grep -q '^good  CUDA runtime' <<<"$output"
    grep -q '^good  stream memory operations' <<<"$output"
    run_prism doctor --json
    python3 -c 'import json, sys; assert len(json.load(sys.stdin)["checks"]) >= 8' <<<"$output"
}

@test "doctor without any GPU says how to mend it" {
    export LD_LIBRARY_PATH=
    [ ! -e /dev/nvidiactl ] || skip "this machine has a GPU"
    run_prism doctor
    [ "$status" -eq 71 ]
    grep -q -- '->' <<<"$output"
}

@test "--measure without a launcher, on four devices of one node" {
    export SOFTGPU_DEVICES=4
    LIMIT=240 run_prism doctor --measure --output=network.json --max-seconds=0.02
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    python3 -c 'import json; json.load(open("network.json"))'
    nothing_left
}

@test "--measure over two nodes with a launcher; the profile is taken by predict and run" {
    LIMIT=300
    timeout 300 "$launch" -g 2 4 -- "$prism" doctor --measure --output=network.json --max-seconds=0.02
    run_prism run --emulate=4 --gpus-per-node=2 --sandbox=0 --assistants=0 --trace=trace --network=network.json \
        -- "$looper" fault 4 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    run_prism predict trace --network=network.json
    [ "$status" -eq 0 ]
    nothing_left
}

@test "--measure with one device says what it needs" {
    export SOFTGPU_DEVICES=1
    run_prism doctor --measure --output=network.json
    refused 71 'launcher'
    [ ! -e network.json ]
}
