#!/usr/bin/env bats
# Transport nccl on software GPUs: real communicators of sandbox ranks and assistants. Numbers are those of the plain run,
# bit for bit, whichever ranks are in the sandbox; what can go wrong has one clear line.

load common

model=(--print-ranks=all --exact-sums --tp=2 --pp=2 --ep=2 --iterations=3 --use-split)

setup_file() {
    mkdir -m 700 "$BATS_FILE_TMPDIR/softgpu"
    LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu SOFTGPU_DIR=$BATS_FILE_TMPDIR/softgpu SOFTGPU_TIME_SCALE=0.05 \
        timeout 300 "$launch" -g 8 16 -- "$moetrain" "${model[@]}" >"$BATS_FILE_TMPDIR/plain" 3>&-
}
setup() { common_setup; }
teardown() { common_teardown; }

# The lines of rank R without the seconds, which differ.
lines_of() { sed -nE "s/.*(rank $1 (iteration|peak).*)/\1/p" | sed -E 's/ seconds [0-9.]+//'; }

# emulate SANDBOX ASSISTANTS: 16 ranks, with ./trace.
emulate() {
    LIMIT=300 run_prism run --emulate=16 --gpus-per-node=8 --sandbox="$1" --assistants="$2" --trace=trace \
        --report=report.json -- "$moetrain" "${model[@]}"
}

# same SANDBOX: $output against the plain run.
same() {
    local rank
    for rank in ${1//,/ }; do
        [ "$(lines_of "$rank" <"$BATS_FILE_TMPDIR/plain" | wc -l)" -eq 4 ]
        diff <(lines_of "$rank" <"$BATS_FILE_TMPDIR/plain") <(lines_of "$rank" <<<"$output")
    done
}

# check_report EXPRESSION: a Python condition on r.
check_report() {
    python3 -c "
import json
r = json.load(open('report.json'))
ops = {o['op']: o for o in r.get('ops', [])}
assert $1, r"
}

seconds() {
    python3 -c '
import json
r = json.load(open("report.json"))
s = [x for l in r["iteration_seconds"].values() for x in l[1:]]
print("%s: %.1f ms an iteration (predicted %.1f)" % (r["transport"], sum(s) / len(s) * 1e3, r["predicted_seconds"]["mean"] * 1e3))'
}

@test "one rank among virtual ones; times beside those of paced" {
    emulate 9 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    same 9
    check_report 'r["transport"] == "nccl" and r["assistants"] == 1 and r["exit_code"] == 0'
    check_report 'all(ops[o]["count"] > 0 for o in ("AllReduce", "AlltoAll", "Send", "Recv"))'
    check_report '0 < ops["AllReduce"]["bytes"] <= ops["AllReduce"]["full_ring_bytes"]'
    check_report 'ops["Send"]["bytes"] == ops["Send"]["full_ring_bytes"]'
    check_report 'r["assistant_payloads"]["hits"] + r["assistant_payloads"]["late"] > 0 and r["assistant_payloads"]["misses"] == 0'
    check_report 'r["live_size_changes"] == 0'
    # 16 ranks in slices of 7 beside an assistant: some pairs are a rank and its assistant, and so the full operation.
    check_report 'r["calibration"]["transport"] == "nccl" and r["calibration"]["slices"] == 3'
    check_report 'r["calibration"]["measured_durations"] > 0'
    check_report 'r["armed_ahead"] > 0'
    grep -q '"format": "prism-durations"' trace/durations.json
    seconds >&3
    emulate 9 0
    [ "$status" -eq 0 ]
    same 9
    check_report 'r["transport"] == "paced" and "ops" not in r'
    seconds >&3
    nothing_left
}

@test "two ranks of one tensor group: a real communicator without assistant" {
    emulate 0,1 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    same 0,1
    nothing_left
}

@test "four ranks of all kinds of groups, two assistants" {
    emulate 0,1,4,11 2
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    same 0,1,4,11
    check_report 'r["assistants"] == 2'
    nothing_left
}

@test "two nodes: assistants serve ranks of both" {
    export PRISM_NODES=2 PRISM_STEP_ID=nccl PRISM_EMULATE=16 PRISM_SANDBOX=0,1,9 PRISM_ASSISTANTS=2 PRISM_TRACE=$PWD/trace
    SOFTGPU_NODE=1 PRISM_NODE_ID=1 timeout 300 "$PRISM_BUILD/bin/prismd" "$moetrain" "${model[@]}" >out.1 2>err.1 3>&- &
    other=$!
    status=0
    SOFTGPU_NODE=0 PRISM_NODE_ID=0 timeout 300 "$PRISM_BUILD/bin/prismd" "$moetrain" "${model[@]}" >out.0 2>err.0 3>&- ||
        status=$?
    wait "$other" || status=$?
    [ "$status" -eq 0 ] || { cat err.0 err.1; return 1; }
    output=$(cat out.0 out.1)
    same 0,1,9
    grep -q 'rank 9' out.1
    nothing_left
}

# As on one GPU, which real NCCL lets ranks share if they seem to be on hosts of their own: nodes of one GPU are that.
@test "ranks and assistant on hosts of their own: what is measured stands for nodes of one GPU only" {
    local options=(--print-ranks=all --exact-sums --pp=2 --iterations=5) gpus
    for gpus in 1 2; do
        CUDA_VISIBLE_DEVICES=0,1 NCCL_HOSTID=assistant LIMIT=200 run_prism run --emulate=2 --gpus-per-node="$gpus" --sandbox=0 --assistants=1 --trace="trace$gpus" \
            --report=report.json -- sh -c 'NCCL_HOSTID=host$RANK exec "$@"' sh "$moetrain" "${options[@]}"
        [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
        check_report "(r['calibration']['measured_durations'] > 0) == ($gpus == 1)"
    done
    nothing_left
}

# As where LD_PRELOAD puts a newer one in front of PyTorch's: the one that is not called lies first in the memory map, as loaded last.
@test "a process with several libnccl: the assistant takes the one that the rank calls" {
    echo 'int nobody_calls;' >other.c
    printf '#include <dlfcn.h>\n__attribute__((constructor)) static void load(void) { dlopen("%s/libnccl.so.2", RTLD_NOW); }\n' "$PWD" >load.c
    cc -shared -fPIC -o libnccl.so.2 other.c && cc -shared -fPIC -o load.so load.c
    run_prism run --emulate=2 --sandbox=0 --assistants=1 --trace=trace -- \
        sh -c 'LD_PRELOAD=$LD_PRELOAD:$0 exec "$@"' "$PWD/load.so" "$looper" fault 5 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
}

@test "sizes that data decides: variable sequences, uneven routing" {
    local options=(--print-ranks=all --exact-sums --tp=2 --ep=2 --iterations=3 --variable-seq --uneven-routing=2)
    timeout 300 "$launch" -g 8 8 -- "$moetrain" "${options[@]}" >plain
    LIMIT=300 run_prism run --emulate=8 --sandbox=2 --assistants=1 --trace=trace -- "$moetrain" "${options[@]}"
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    diff <(lines_of 2 <plain) <(lines_of 2 <<<"$output")
}

@test "an assistant that is killed ends the run, which says so" {
    # Calibration has assistants of its own: only emulation's is to be met.
    local pid= i
    for i in capture calibrate; do
        run_prism run --emulate=8 --sandbox=0 --assistants=1 --trace=trace --phase=$i -- "$looper" fault 200 20
        [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    done
    echo 'hang 0 150' >fault # on a busy machine too the run does not end before the signal comes
    start_foreground "$prism" run --emulate=8 --sandbox=0 --assistants=1 --trace=trace -- "$looper" fault 200 20
    for i in $(seq 300); do
        pid=$(our_processes | awk '$2 ~ /prism-assistant/ { print $1; exit }')
        [ -n "$pid" ] && break
        sleep 0.2
    done
    [ -n "$pid" ] || { cat .stderr; return 1; }
    rank_pid 0 >/dev/null
    sleep 0.5
    kill -KILL "$pid"
    await_started 60
    [ "$code" = 68 ] || { echo "exit code $code: $(cat .stderr)"; return 1; }
    grep -qE 'assistant 0 \(device [0-9]+ of node 0\) was ended by signal 9' .stderr || { cat .stderr; return 1; }
    nothing_left
}

@test "too few devices are named before anything starts" {
    emulate 0,1,2,3 5
    refused 64 'node 0 has 8 devices, but 4 sandbox ranks and 5 assistants need one each'
    one_line
    [ ! -e trace/trace.json ]
}

@test "another sandbox set than the trace's is refused, and paced still works" {
    looper_run auto 5 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=1 --assistants=1 --trace=trace -- "$looper" fault 5 1
    refused 65 'the sums in the trace .* are exact for sandbox ranks 0,2, not for 1; capture again'
    one_line
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=1 --assistants=0 --trace=trace -- "$looper" fault 5 1
    [ "$status" -eq 0 ]
}

@test "ballast: allocated by the table, and out of memory where the full job would be" {
    table() { # BYTES [VERSION]
        local version=${2:-$(python3 -c 'import ctypes, os
v = ctypes.c_int()
ctypes.CDLL(os.environ["PRISM_BUILD"] + "/lib/softgpu/libnccl.so.2").ncclGetVersion(ctypes.byref(v))
print(v.value)')}
        echo '{"format": "prism-ballast", "version": 1, "nccl": '"$version"', "process_bytes": 1048576, "channels": 0,
            "sizes": [{"size": 2, "bytes": 2097152}, {"size": 4, "bytes": '"$1"'}]}' >ballast.json
    }
    export PRISM_BUILD PRISM_BALLAST=$PWD/ballast.json
    table 8388608
    looper_run auto 5 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    python3 -c 'import json
b = json.load(open("trace/report.json"))["ballast_bytes"]
assert b == {"0": 9437184, "2": 9437184}, b'
    table 4398046511104
    looper_run emulate 5 1
    [ "$status" -ne 0 ]
    table 4398046511104 1
    looper_run emulate 5 1
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    grep -q 'the ballast table of 1: no ballast' <<<"$errors"
    echo '{}' >ballast.json
    looper_run emulate 5 1
    refused 64 'PRISM_BALLAST: .*ballast.json is no ballast table'
}

@test "payloads stay on the assistant's device for the next round of the recorded iterations" {
    export SOFTGPU_TIME_SCALE=1 # so slow that capture ends before the program does
    rounds() { # PHASE
        run_prism run --phase="$1" --emulate=4 --sandbox=0 --assistants=1 --iterations=3 --trace=rounds --report=report.json -- \
            "$moetrain" --exact-sums --iterations=20
        [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    }
    rounds auto
    check_report 'r["assistant_payloads"]["kept"] > 0 and r["assistant_payloads"]["misses"] == 0'
    lines_of 0 <<<"$output" >kept
    [ "$(wc -l <kept)" -eq 21 ]
    export PRISM_ASSISTANT_MEMORY=0
    rounds emulate
    check_report 'r["assistant_payloads"]["kept"] == 0 and r["assistant_payloads"]["hits"] > 0'
    diff kept <(lines_of 0 <<<"$output")
}

# Behind the recorded iterations how many tokens two live ranks send each other is not what was recorded, and both must know it; at the
# end ranks are killed while assistants communicate with them.
@test "calibration with real communication, ended early, of a program whose sizes are made from data" {
    export SOFTGPU_TIME_SCALE=0.2 SOFTGPU_DEVICES=3
    LIMIT=300 run_prism run --emulate=8 --gpus-per-node=4 --sandbox=0 --assistants=1 --iterations=2 --trace=trace -- \
        "$moetrain" --pp=2 --ep=2 --micro-batches=4 --iterations=150 --exact-sums
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    [ "$(grep -c 'slice: every rank has done its iterations' <<<"$errors")" -eq 4 ]
}
