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

@test "limits that are too low, and how to raise them" {
    warns() { grep -A1 -E "^warn +$1 +$2" <<<"$output" | grep -qF -- "$3" || { echo "no warning '$1 $2', '$3':"; echo "$output"; return 1; }; }
    run bash -c 'ulimit -n 500 -l 64 -u 4000 && exec "$0" doctor' "$prism"
    [ "$status" -eq 0 ] # warnings
    warns 'processes' '4000 processes' 'ulimit -u'
    warns 'open files' '500 open files' 'ulimit -n'
    warns 'locked memory' '65536 bytes locked' 'ulimit -l unlimited'
    # A small /dev/shm, in a mount namespace of its own.
    [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null || skip "the limits are warned of; another /dev/shm needs root"
    run unshare -m bash -c 'mount -t tmpfs -o size=1m small /dev/shm && exec "$0" doctor' "$prism"
    [ "$status" -eq 0 ]
    warns 'shared memory' '.* free in /dev/shm' '--shm-size'
}

@test "--measure without a launcher, on four devices of one node" {
    export SOFTGPU_DEVICES=4
    LIMIT=540 run_prism doctor --measure --output=network.json --max-seconds=0.02
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    python3 -c 'import json; json.load(open("network.json"))'
    nothing_left
}

@test "--measure over two nodes with a launcher; the profile is taken by predict and run" {
    LIMIT=540
    timeout 540 "$launch" -g 2 4 -- "$prism" doctor --measure --output=network.json --max-seconds=0.02
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
