#!/usr/bin/env bats
# Context switching in capture: more ranks on one software device than its memory holds. PRISM_DEVICE_MEMORY makes it small.

load common

setup() {
    common_setup
    export PRISM_DEVICES_PER_NODE=1
}
teardown() { common_teardown; }

# Eight ranks of some 32 MiB each; every rank prints its losses.
trainer() {
    echo "$moetrain" --tp=2 --ep=1 --layers=2 --hidden=256 --ffn=1024 --vocab=512 --micro-batches=1 --iterations=1 \
        --exact-sums --print-ranks=all
}

# Capture into the folder $1.
capture() {
    run_prism run --emulate=8 --gpus-per-node=8 --sandbox=0 --trace="$1" --phase=capture -- $(trainer)
}

captured() {
    capture "$1"
    [ "$status" -eq 0 ] || { echo "$1: exit code $status: $errors"; return 1; }
}

# Losses and gradient norms of all ranks, to the bit.
numbers() {
    cat "$1"/logs/capture.rank* | grep -o 'rank [0-9]* iteration.*loss_bits.*' | sed 's/ seconds [^ ]*//' | sort
}

counter() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1/switching.json" "$2"; }

@test "ranks that do not fit together compute the same numbers, whoever leaves" {
    captured fits
    [ ! -e fits/switching.json ]
    [ "$(numbers fits | wc -l)" -eq 8 ]
    # Half of them fit.
    export PRISM_DEVICE_MEMORY=$((144 << 20))
    captured policy
    [ "$(counter policy evictions)" -gt 0 ]
    [ "$(counter policy bytes_out)" -gt 0 ]
    [ "$(counter policy refused)" -eq 0 ]
    # Device memory goes from rank to rank; what was made anew is what nobody gave up.
    [ "$(counter policy bytes_handed)" -gt 0 ]
    [ "$(counter policy bytes_handed)" -le "$(counter policy bytes_in)" ]
    diff <(numbers fits) <(numbers policy)
    # Another order, and a pool that holds one of them: the others go to disk.
    PRISM_EVICTION_SEED=7 PRISM_HOST_POOL=$((32 << 20)) captured random
    [ "$(counter random evictions)" -gt 0 ]
    [ "$(counter random spilled_bytes)" -gt 0 ]
    [ "$(counter random host_bytes)" -le $((32 << 20)) ]
    diff <(numbers fits) <(numbers random)
    # It is in the report of a run on that trace.
    unset PRISM_DEVICE_MEMORY
    run_prism run --emulate=8 --gpus-per-node=8 --sandbox=0 --assistants=0 --trace=random -- $(trainer)
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    run_prism report random
    grep -qE 'switching +[0-9]+ evictions of [0-9]+ ranks' <<<"$output"
    nothing_left
}

# MemAvailable as it is told to the mover: less than is to stay free, then more.
@test "on a node whose memory is short ranks go to disk, until there is more" {
    node() { printf 'MemTotal: 67108864 kB\nMemAvailable: %d kB\n' "$1" >node/next && mv node/next node/proc/meminfo; }
    mkdir -p node/proc
    captured fits
    export PRISM_DEVICE_MEMORY=$((144 << 20)) PRISM_TEST_MEMORY=$PWD/node PRISM_HOST_POOL=$((256 << 20))
    node 2000000
    captured short
    grep -q 'PRISM_HOST_POOL is 0.3 GB, and 2.0 GB of memory are available, of which 2.1 GB are kept free' <<<"$errors"
    [ "$(counter short evictions)" -gt 0 ]
    [ "$(counter short host_bytes)" -eq 0 ]
    [ "$(counter short spilled_bytes)" -eq "$(counter short bytes_out)" ]
    diff <(numbers fits) <(numbers short)
    PRISM_HOST_RESERVE=1000000000 captured enough
    [ "$(counter enough host_bytes)" -gt 0 ]
    diff <(numbers fits) <(numbers enough)
    nothing_left
}

# Without inputs that go early, each of the 37 sums in a row would need the two ranks that do not fit brought back, and two others
# out: 74 evictions at least.
@test "a row of sums on one stream needs a rank on the device once, not once a sum" {
    sums() { cat "$1"/logs/capture.rank* | grep -o 'rank [0-9]* iteration.*sum.*' | sort; }
    buckets() { run_prism run --emulate=8 --gpus-per-node=8 --trace="$1" --phase=capture -- "$PRISM_BUILD/test/buckets" 3 12 16; }
    buckets fits
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ "$(sums fits | wc -l)" -eq 24 ]
    export PRISM_DEVICE_MEMORY=$((100 << 20))
    for seed in 0 5; do
        PRISM_EVICTION_SEED=$seed buckets "switched$seed"
        [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
        diff <(sums fits) <(sums "switched$seed")
        [ "$(counter "switched$seed" evictions)" -gt 0 ]
        [ "$(counter "switched$seed" evictions)" -lt 60 ] || { cat "switched$seed/switching.json"; return 1; }
        # It is the same graph.
        [ "$("$prism" info "switched$seed" --json | grep -c . )" -eq "$("$prism" info fits --json | grep -c .)" ]
    done
    nothing_left
}

@test "a rank that was to leave and could not gets what became ready meanwhile" {
    PRISM_DEVICE_MEMORY=$((110 << 20)) LIMIT=60 run_prism run --emulate=2 --gpus-per-node=2 --trace=trace --phase=capture -- "$PRISM_BUILD/test/stubborn"
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ "$(cat trace/logs/capture.rank* | grep -c 'sum 1571328$')" -eq 2 ] # 3 * (0 + ... + 1023)
    [ "$(counter trace evictions)" -gt 0 ]
    nothing_left
}

# All that are on the device wait for the two that are not, with a full queue of fills.
@test "ranks whose hosts queue more than the driver takes can leave the device" {
    sums() { cat "$1"/logs/capture.rank* | grep -o 'rank [0-9]* iteration.*sum.*' | sort; }
    buckets() { run_prism run --emulate=8 --gpus-per-node=8 --trace="$1" --phase=capture -- "$PRISM_BUILD/test/buckets" 2 4 16 1500; }
    buckets fits
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    export PRISM_DEVICE_MEMORY=$((100 << 20)) SOFTGPU_QUEUE_ENTRIES=1024
    buckets switched
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ "$(counter switched evictions)" -gt 0 ]
    [ "$(sums switched | wc -l)" -eq 16 ]
    diff <(sums fits) <(sums switched)
    nothing_left
}

@test "a program that wants more than a rank may have runs out of memory" {
    export PRISM_DEVICE_MEMORY=$((16 << 20))
    capture trace
    [ "$status" -ne 0 ]
    grep -qiE 'the device has no room' <<<"$errors"
    nothing_left
}

# Start a capture that takes long enough and wait until ranks have left the device.
start_switched() {
    export PRISM_DEVICE_MEMORY=$((144 << 20))
    start_foreground "$prism" run --emulate=8 --gpus-per-node=8 --sandbox=0 --trace=trace --phase=capture -- \
        $(trainer) --iterations=2000
    rank_pid 3 >/dev/null
    sleep 8
    kill -0 "$started" || { cat .stderr; return 1; }
}

@test "a rank is killed while ranks are switched" {
    start_switched
    kill -KILL "$(rank_pid 3)"
    await_started 60
    [ "$code" = 67 ] || [ "$code" = 137 ] || { echo "exit code $code: $(cat .stderr)"; return 1; }
    grep -q 'rank 3' .stderr
    nothing_left
}

@test "prismd is killed while ranks are switched" {
    start_switched
    kill -KILL "$started"
    await_started 60
    nothing_left
}

@test "a spill folder that cannot be written ends the run with one line" {
    export PRISM_DEVICE_MEMORY=$((144 << 20)) PRISM_HOST_POOL=0 PRISM_SPILL=/proc
    capture trace
    refused 68 'cannot make a file for device memory in /proc.*PRISM_SPILL'
    nothing_left
}

@test "a mover that is lost ends the run" {
    start_switched
    pid=$(our_processes | grep -m1 prism-mover | cut -d' ' -f1)
    [ -n "$pid" ]
    kill -KILL "$pid"
    await_started 60
    [ "$code" = 68 ] || { echo "exit code $code: $(cat .stderr)"; return 1; }
    # Whoever sees it first says so.
    grep -qE 'prism-mover was ended by signal 9|the process that moves its device memory' .stderr
    nothing_left
}

@test "without a mover ranks are not switched, and that is said" {
    # An installation that lacks it.
    mkdir -p copy/bin copy/lib
    cp "$PRISM_BUILD"/bin/prism "$PRISM_BUILD"/bin/prismd copy/bin/
    cp "$PRISM_BUILD"/lib/libprism.so copy/lib/
    prism=$PWD/copy/bin/prism
    PRISM_SWITCHING=1 captured trace
    grep -q 'prism-mover is missing' <<<"$errors"
    [ "$(numbers trace | wc -l)" -eq 8 ]
    nothing_left
}
