#!/usr/bin/env bats
# Damaged traces: an error that names the file, never another answer.

load common

setup() {
    common_setup
    damage=$PRISM_SOURCE/tests/system/damage.py
}
teardown() { common_teardown; }

captured() {
    looper_run auto 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
}

# Every command that reads a trace refuses this one, in one line with these words.   all_refuse PATTERN
all_refuse() {
    local command
    for command in info verify predict export "plan --emulate=4 --gpus-per-node=4 --trace=trace"; do
        # shellcheck disable=SC2086 # a command and its options
        if [ "${command#plan}" = "$command" ]; then run_prism $command trace; else run_prism $command; fi
        refused 65 "$1" && one_line || { echo "of prism $command: $output"; return 1; }
    done
    run_prism plot trace --output=picture.svg
    refused 65 "$1" || [ "$status" -eq 69 ] # built without cairo
    looper_run emulate 3 1
    refused 65 "$1"
}

@test "every file of a trace: cut, changed, away" {
    captured
    unset PRISM_NETWORK
    python3 "$damage" plant trace
    python3 "$damage" seal trace
    python3 "$damage" sweep "$prism" trace
}

@test "numbers of trace.json out of range, or not the graph's: of an earlier version too" {
    captured
    local version change
    for version in 3 2; do
        rm -rf kept
        cp -r trace kept
        while IFS='|' read -r change says; do
            [ "$version" -eq 3 ] || earlier_manifest trace "$version"
            sed -i "s/$change/" trace/trace.json
            [ "$version" -eq 2 ] || python3 "$damage" seal trace # somebody's script: checksums hold
            all_refuse "$says"
            cp kept/trace.json trace/trace.json
        done <<'X'
"world": 4/"world": 2147483648|trace/trace.json is damaged \("world" is 2147483648, from 1 to 1048576 is allowed\); capture again
"world": 4/"world": 1048577|"world" is 1048577, from 1 to 1048576
"gpus_per_node": 4/"gpus_per_node": 9|trace/trace.json says 9 GPUs a node and .*trace/graph.bin says 4: .*capture again
"gpus_per_node": 4/"gpus_per_node": 0|"gpus_per_node" is 0, from 1
"gpus_per_node": 4/"gpus_per_node": 4294967295|"gpus_per_node" is 4294967295, from 1 to 100000
"iterations": 3/"iterations": 6|trace/trace.json says 6 iterations and .*trace/graph.bin says 3
"nodes": 1/"nodes": 5000|"nodes" is 5000, from 0 to 4096
X
        [ "$version" -eq 3 ] || earlier_manifest trace "$version"
        sed -i 's/"world": 4/"world": 8/' trace/trace.json
        [ "$version" -eq 2 ] || python3 "$damage" seal trace
        run_prism info trace
        refused 65 'trace.json says 8 ranks and trace/graph.bin says 4'
        run_prism info trace --rank=1
        refused 65 'trace.json says 8 ranks and trace/graph.bin says 4'
        run_prism run --emulate=8 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace --phase=emulate -- "$looper" fault 3 1
        refused 65 'graph.bin is of a world of 4, not 8|says 8 ranks'
        cp kept/trace.json trace/trace.json
    done
    earlier_manifest trace 2
    cp trace/payload-0.idx trace/payload-1.idx # as of a trace whose "nodes" is one less than it was
    all_refuse 'says that 1 node captured, and there is .*trace/payload-1.idx'
}

@test "a trace.json that cannot be read, or is of a later version, is told; its trace is captured again when that is asked for" {
    captured
    cp trace/trace.json whole.json
    printf x | dd of=trace/trace.json bs=1 seek=200 conv=notrunc status=none
    sha256sum trace/* 2>/dev/null >before || true
    looper_run auto 3 1
    refused 65 'trace/trace.json is damaged (.*); capture again \(--phase=capture; with srun --prism-phase=capture\), or name another trace'
    sed "s/\"version\": 3/\"version\": 4/" whole.json >trace/trace.json
    looper_run auto 3 1
    refused 65 'trace version 4.*capture again'
    printf x | dd of=trace/trace.json bs=1 seek=200 conv=notrunc status=none
    sha256sum trace/* 2>/dev/null | grep -v trace.json | diff <(grep -v trace.json before) -
    looper_run capture 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    looper_run auto 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    run_prism verify trace
    [ "$status" -eq 0 ]
    nothing_left
}

@test "a profile that was edited in the trace: what to do instead, and that it helps" {
    captured
    unset PRISM_NETWORK
    sed 's/"bandwidth_bytes_per_second": [0-9.e+]*/"bandwidth_bytes_per_second": 1e9/' trace/network.json >mine.json
    cp mine.json trace/network.json
    all_refuse 'trace/network.json has .* when trace.json was written: .*--network=FILE'
    run_prism predict trace --network=mine.json
    [ "$status" -eq 0 ]
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace --phase=calibrate -- "$looper" fault 3 1
    refused 65 'trace/network.json has'
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace --phase=calibrate --network=mine.json -- "$looper" fault 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    run_prism verify trace
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    nothing_left
}

@test "durations of another trace: refused, and ignored aloud where they are not read; damaged ones are refused" {
    captured
    unset PRISM_NETWORK
    cp trace/network.json mine.json
    echo '{' >trace/durations.json
    all_refuse 'trace/durations.json is not of this trace'
    run_prism predict trace --network=mine.json
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ "$(grep -c '^prism: trace/durations.json is ignored: it is not of this trace' <<<"$errors")" -eq 1 ]
    python3 "$damage" plant trace
    python3 "$damage" seal trace
    printf x >>trace/durations.json
    run_prism predict trace --network=mine.json
    refused 65 'trace/durations.json has .* bytes and had'
}

@test "a calibration that fails leaves the one before it whole, and a trace without one without" {
    captured
    # Another profile, which network.json is until the end not, and a rank that ends at once.
    sed 's/"bandwidth_bytes_per_second": [0-9.e+]*/"bandwidth_bytes_per_second": 1e9/' trace/network.json >mine.json
    local before
    before=$(sha256sum trace/*.json trace/*.bin trace/*.log)
    echo 'crash 1 1' >fault
    PRISM_NETWORK=$PWD/mine.json looper_run calibrate 3 1
    [ "$status" -ne 0 ]
    rm fault
    [ "$(sha256sum trace/*.json trace/*.bin trace/*.log)" = "$before" ]
    run_prism verify trace
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    looper_run emulate 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    PRISM_NETWORK=$PWD/mine.json looper_run calibrate 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    grep -q '1e9\|1000000000' trace/network.json
    looper_run capture 3 1
    echo 'crash 1 1' >fault
    looper_run calibrate 3 1
    [ "$status" -ne 0 ]
    rm fault
    looper_run emulate 3 1
    refused 65 'not calibrated'
    run_prism verify trace
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    nothing_left
}

@test "a folder that is no trace loses no file to a capture or to prism synth" {
    local name names='payload-sizes.csv payload-notes.txt hang.json durations.json folding.json mine.txt'
    mkdir trace
    for name in $names; do echo mine >"trace/$name"; done
    cp -r trace synthetic
    printf 'layers = 1; layout = { dp = 2; };\nsteps = { forward = ( { compute_us = 1.0; } ); end = ( { op = "AllReduce"; group = "dp"; bytes = 8; } ); };\n' >job.conf
    run_prism synth job.conf -o synthetic
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    for name in $names; do [ "$(cat "synthetic/$name")" = mine ]; done
    rm trace/durations.json trace/folding.json # which a capture has itself
    looper_run capture 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    for name in payload-sizes.csv payload-notes.txt mine.txt; do [ "$(cat "trace/$name")" = mine ]; done
    nothing_left
}

@test "a new capture or prism synth into the folder takes nothing over from the trace before" {
    captured
    local name
    plant() {
        for name in durations.json pmix.log folding.json switching.json hang.json payload-7.idx; do echo '{}' >"trace/$name"; done
    }
    planted() { for name in durations.json pmix.log folding.json switching.json hang.json payload-7.idx; do [ ! -e "trace/$name" ] || echo "$name"; done; }
    plant
    looper_run capture 3 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ -z "$(planted)" ]
    [ -e trace/network.json ] # measured once
    run_prism verify trace
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    plant
    printf 'layers = 1; layout = { dp = 2; };\nsteps = { forward = ( { compute_us = 1.0; } ); end = ( { op = "AllReduce"; group = "dp"; bytes = 8; } ); };\n' >job.conf
    run_prism synth job.conf -o trace
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ -z "$(planted)" ]
    run_prism verify trace
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
}
