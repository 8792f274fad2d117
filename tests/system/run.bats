#!/usr/bin/env bats
# The whole path on one node: moetrain captured, calibrated and emulated; numbers and memory equal to the plain run.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# The lines of rank R without the seconds, which differ.
lines_of() { sed -nE "s/.*(rank $1 (iteration|peak).*)/\1/p" | sed -E 's/ seconds [0-9.]+//'; }

# compare WORLD GPUS_PER_NODE SANDBOX ASSISTANTS moetrain options…: plain run against emulation, per sandbox rank.
compare() {
    local world=$1 gpus=$2 sandbox=$3 assistants=$4 rank
    shift 4
    timeout 300 "$launch" -g "$gpus" "$world" -- "$moetrain" --print-ranks=all --exact-sums "$@" >plain
    LIMIT=300 run_prism run --emulate="$world" --gpus-per-node="$gpus" --sandbox="$sandbox" --assistants="$assistants" \
        --trace=trace --report=report.json -- "$moetrain" --print-ranks=all --exact-sums "$@"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    for rank in ${sandbox//,/ }; do
        [ -n "$(lines_of "$rank" <plain)" ]
        diff <(lines_of "$rank" <plain) <(lines_of "$rank" <<<"$output")
    done
    nothing_left
}

@test "TP, PP, DP and experts, paced; then the tools on its trace" {
    compare 16 8 0,8 0 --tp=2 --pp=2 --ep=2 --layers=4 --iterations=3
    cmp report.json trace/report.json

    run_prism report trace
    [ "$status" -eq 0 ]
    grep -qE 'world +16 ranks' <<<"$output"
    grep -qE 'rank 8' <<<"$output"
    run_prism report trace --json
    python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["world"] == 16 and r["sandbox"] == [0, 8] and r["transport"] == "paced", r
assert r["exit_origin"] == "program" and r["exit_code"] == 0
assert all(k in r for k in ("devices", "phases", "predicted_seconds", "pacing_us"))
assert all(len(r["iteration_seconds"][k]) == 3 and r["peak_memory_bytes"][k] > 0 for k in ("0", "8")), r
assert all(k in r["pacing_us"] for k in ("p50", "p95", "p99", "max"))' <<<"$output"

    run_prism info trace --json
    python3 -c '
import json, sys
r = json.load(sys.stdin)
assert r["world"] == 16 and r["complete"] and r["calibrated"] and r["iterations"] == 3, r
assert r["ops"] and r["payloads"]["count"] > 0' <<<"$output"
    run_prism verify trace
    [ "$status" -eq 0 ]
    run_prism predict trace --json
    python3 -c '
import json, sys
r = json.load(sys.stdin)
assert len(r["iteration_seconds"]) == 3 and all(s > 0 for s in r["iteration_seconds"]), r' <<<"$output"
    run_prism export trace --format=csv
    [ "$status" -eq 0 ]
    [ "$(wc -l <<<"$output")" -gt 16 ]
}

@test "a second run with the same trace goes straight to emulation" {
    looper_run auto 5 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    before=$(stat -c %Y.%s trace/graph.bin)
    looper_run auto 5 1
    [ "$status" -eq 0 ]
    [ "$before" = "$(stat -c %Y.%s trace/graph.bin)" ]
    grep -q 'rank 2 iteration 4 sum' <<<"$output"
    nothing_left
}

@test "the nccl transport, with one assistant" {
    compare 8 8 0,4 1 --tp=2 --pp=2 --layers=2 --iterations=3
    grep -q '"transport": *"nccl"' report.json
}

@test "a sandbox rank in every pipeline stage, CUDA_DEVICE_MAX_CONNECTIONS=1" {
    export CUDA_DEVICE_MAX_CONNECTIONS=1
    compare 8 8 0,2,4,6 0 --pp=4 --layers=4 --moe-every=0 --micro-batches=4 --iterations=2
}

@test "two sandbox ranks of one tensor group on different nodes" {
    compare 8 2 0,2 0 --tp=4 --layers=2 --moe-every=0 --iterations=2
}

# 31 can wait; the trainer's own communication is one more, at times.
@test "streams that wait at once: 2 and 30 work, 40 are refused in capture" {
    compare 2 2 0 0 --layers=1 --moe-every=0 --iterations=2 --wait-streams=2
    rm -rf trace
    compare 2 2 0 0 --layers=1 --moe-every=0 --iterations=2 --wait-streams=30
    rm -rf trace
    # Full speed: the late rank keeps the others' gates closed long enough for all of them to stand there.
    SOFTGPU_TIME_SCALE=20 run_prism run --emulate=2 --gpus-per-node=2 --trace=trace -- "$moetrain" --layers=1 --moe-every=0 \
        --iterations=2 --wait-streams=40
    refused 69 'capture can serve 31 .*PRISM_QUEUES'
    nothing_left
}

# Few ranks are forked by prismd, many by its starter.
@test "ranks have the descriptors that the program has without prism" {
    sh -c 'echo /proc/$$/fd/*' | sed 's#/proc/[0-9]*/fd/##g' >plain
    for world in 4 72; do
        run_prism run --emulate="$world" --gpus-per-node="$world" --trace=trace -- sh -c 'echo /proc/$$/fd/*'
        refused 66 NCCL
        sed 's#/proc/[0-9]*/fd/##g' "trace/logs/capture.rank$((world - 1))" >of-rank
        diff plain of-rank
        rm -r trace
    done
    nothing_left
}
