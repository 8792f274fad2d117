#!/usr/bin/env bats
# Control mode: integers and small parts exact, large floating-point results made on the device. Captured so, or asked of a trace
# that has everything; in both transports.

load common

setup() { common_setup; }
teardown() { common_teardown; }

program=("$PRISM_BUILD/test/gradients" 2 4)
pattern='-0.03125 0.00968137 -0.00943627'

# phase TRACE OPTION...: rank 1 of four.
phase() {
    local trace=$1
    shift
    LIMIT=100 run_prism run --emulate=4 --gpus-per-node=4 --sandbox=1 --trace="$trace" --report=report.json "$@" -- "${program[@]}"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
}

plain() { timeout 100 "$launch" -g 4 4 -- "${program[@]}" | grep '^rank 1 ' >plain; }

# $output has the plain run's losses, norms and counts, and for gradients these values.
exact_but() {
    [ "$(grep -c iteration plain)" -eq 4 ]
    diff <(grep iteration plain) <(grep '^rank 1 iteration' <<<"$output")
    [ "$(grep -c '^rank 1 gradients' <<<"$output")" -eq 4 ]
    diff <(sort -u <<<"rank 1 gradients $1") <(grep '^rank 1 gradients' <<<"$output" | sort -u)
}

check_report() { python3 -c "import json; r = json.load(open('report.json')); assert $1, r"; }
raw_bytes() { "$prism" info "$1" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["payloads"]["raw_bytes"])'; }

# As Prism wrote it before the manifest said what payloads hold.
make_old() {
    earlier_manifest "$1" 1
    absent payload "$1/trace.json"
}

@test "captured in control mode: a trace of what is kept, and the rest is made on the device" {
    plain
    phase trace --payload=control
    exact_but "$pattern other $pattern"
    check_report 'r["payload"] == "control" and r["numerics"].startswith("exact 1-4 but for floating-point data of more than 4096 bytes")'
    # An iteration: the norm, 1,024 counts, the loss; of four ranks, and the sums that rank 1 is without.
    [ "$(raw_bytes trace)" -eq $((4 * 5 * (4 + 8192 + 4))) ]
    run_prism info trace
    grep -qE 'payloads +.*control mode' <<<"$output"
    run_prism verify trace
    [ "$status" -eq 0 ]

    # Again, without saying so; and not more than there is.
    phase trace
    exact_but "$pattern other $pattern"
    run_prism run --emulate=4 --sandbox=1 --trace=trace --payload=full -- "${program[@]}"
    refused 65 'captured with --prism-payload=control .* --prism-payload=full cannot be delivered'
    one_line
    run_prism plan --emulate=4 --gpus-per-node=4 --trace=trace --payload=full
    refused 65 'captured with --payload=control .* --payload=full cannot be delivered'

    # What is lost is told from what was not kept.
    earlier_manifest trace 2 # which can be changed: it has no checksum
    sed -i 's/"payload": "control"/"payload": "full"/' trace/trace.json
    run_prism run --emulate=4 --sandbox=1 --trace=trace -- "${program[@]}"
    refused 65 'the trace has no payload for group 0 of communicator 0'
    nothing_left
}

@test "a trace that has everything, emulated in control mode, is not read for what is large; an old one is right as before" {
    plain
    phase trace
    diff plain <(grep '^rank 1' <<<"$output")
    check_report 'r["payload"] == "full" and r["numerics"] == "exact 1-4, looped after" and r["prefetch"]["bytes"] > 4 * 4 << 20'
    [ "$(raw_bytes trace)" -gt $((4 * 5 * 4 << 20)) ]
    local i
    for i in 2 1; do
        PRISM_PREFETCH=$((1 << 20)) phase trace --payload=control # no room for what is large
        exact_but "$pattern other $pattern"
        # The norm is in a group with 2,048 others, which are read with it.
        check_report 'r["payload"] == "control" and r["prefetch"]["misses"] == 0 and r["prefetch"]["bytes"] == 4 * (8192 + 4 + 8192 + 4)'
        make_old trace
    done
    phase trace
    diff plain <(grep '^rank 1' <<<"$output")
    phase trace --payload=none
    grep -qx 'rank 1 iteration 3 loss 0 norm 0 count 0' <<<"$output"
    check_report 'r["numerics"].startswith("zero")'
}

@test "transport nccl: what absent ranks bring is synthetic too, where it is large" {
    plain
    # Rank 1 adds 2 to the pattern in the first iteration, and 1 more in each.
    sums() { python3 -c 'print("\n".join("rank 1 gradients %g %g %g other %g %g %g" % ((i + 2 - 0.03125, i + 2.00968137, i + 2 - 0.00943627) * 2) for i in range(4)))'; }
    phase full # by recorded results, which is fast
    local trace
    for trace in control full; do # the one is calibrated with real communication
        phase "$trace" --payload=control --assistants=1 --slices=1
        diff <(grep iteration plain) <(grep '^rank 1 iteration' <<<"$output")
        diff <(sums) <(grep '^rank 1 gradients' <<<"$output")
        check_report 'r["payload"] == "control" and r["transport"] == "nccl" and r["assistant_payloads"]["misses"] == 0'
    done
    nothing_left
}

@test "what is made on the device is the pattern: by the kernel and by copies, any size, any place; behind no gate" {
    export SOFTGPU_LAZY_LOADING=1
    run timeout 100 "$PRISM_BUILD/test/gpu_fill" check
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '"wrong": 0}' <<<"$output")" -eq 2 ]
}

@test "the PTX of the kernels: prism_fill writes the pattern, each byte once; the toolkit's assembler takes both for all its GPUs" {
    local check=$PRISM_SOURCE/tests/system/ptx_check.py gate=$PRISM_SOURCE/lib/preload/gate name architecture
    "$check" "$gate/fill.c"
    PATH=$PATH:/usr/local/cuda/bin
    command -v ptxas >/dev/null || skip "no CUDA toolkit; the pattern was right"
    for architecture in $(ptxas --help | grep -o "'sm_[0-9]*'" | tr -d "'" | sort -u); do
        for name in fill gate_kernel; do
            "$check" "$gate/$name.c" --print | ptxas -arch "$architecture" -o out.cubin - || { echo "$name.c for $architecture"; return 1; }
        done
    done
}
