#!/usr/bin/env bats
# One capture by several prismds: the trace is that of one, and a node that is lost leaves nothing that looks whole.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# The prismd of a node of two, in the background: pid in $started, output in NODE.out and NODE.err.   node NODE PROGRAM...
node() {
    local number=$1
    shift
    SOFTGPU_NODE=$number PRISM_NODE_ID=$number timeout 100 "$PRISM_BUILD/bin/prismd" "$@" >"$number.out" 2>"$number.err" 3>&- &
    started=$!
}

capture_on_two() { # WORLD
    export PRISM_NODES=2 PRISM_STEP_ID=two PRISM_EMULATE=$1 PRISM_GPUS_PER_NODE=$(($1 / 2)) PRISM_SANDBOX=0 PRISM_PHASE=capture PRISM_TRACE=$PWD/two
}

# Both nodes, to their end.   both_nodes PROGRAM...
both_nodes() {
    local other
    node 1 "$@"
    other=$started
    node 0 "$@"
    wait "$started" || { cat ./*.err; return 1; }
    wait "$other"
}

@test "captured by two nodes and by one: the same graph" {
    local program=("$moetrain" --tp=2 --pp=2 --ep=2 --iterations=3)
    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=0 --trace=one --phase=capture -- "${program[@]}"
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    capture_on_two 8
    both_nodes "${program[@]}"
    "$PRISM_BUILD/test/fold_compare" one/graph.bin two/graph.bin
    run_prism verify two
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    nothing_left
}

@test "large parts of all-to-alls arrive whole, from this node and from another" {
    run_prism run --emulate=3 --sandbox=0 --trace=one --phase=capture --payload=control -- "$PRISM_BUILD/test/gpu_volume" exchange 6 2
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    capture_on_two 4
    both_nodes "$PRISM_BUILD/test/gpu_volume" exchange 8 2
    grep -q "exchange, 8 operations of" one/logs/capture.rank0
    grep -q "exchange, 8 operations of" two/logs/capture.rank0
    nothing_left
}

averages_on_two() { # FLOATING INT32-OF-ITERATION-1
    capture_on_two 128
    export PRISM_SANDBOX=0,127
    # shellcheck disable=SC2086
    both_nodes "$PRISM_BUILD/test/averages" 2 $1
    unset PRISM_NODES PRISM_STEP_ID PRISM_EMULATE PRISM_GPUS_PER_NODE PRISM_SANDBOX PRISM_PHASE PRISM_TRACE
    averages_of "$2" two/logs/capture.rank*
}

averages_of() { # INT32-OF-ITERATION-1 FILE...: each file has a rank's two lines. 383 of which bf16 keeps eight bits are uneven.
    local int32=$1 fp16=1024 i
    [ "$int32" -ne 0 ] || fp16=32
    shift
    for i in 1 2; do
        [ "$(cat "$@" | grep -E "^rank [0-9]+ iteration $i: fp32 $((2 * i)) bf16 $((2 * i)) fp16 $((fp16 * i)) int32 $((int32 * i)) sum $((256 * i)) uneven" |
            awk -v i=$i '$NF >= 380 * i && $NF <= 386 * i' | wc -l)" -eq $# ] || { tail -n 2 "$1"; return 1; }
    done
}

replayed() { # ASSISTANTS INT32-OF-ITERATION-1 PROGRAM...
    local int32=$2
    run_prism run --emulate=128 --gpus-per-node=64 --sandbox=0,127 --assistants="$1" --trace=two -- "${@:3}"
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    grep '^rank 0 ' <<<"$output" >0.lines
    grep '^rank 127 ' <<<"$output" >127.lines
    averages_of "$int32" 0.lines 127.lines
}

# 128 members are summed by node. What is kept of the absent ranks is a plain sum, which fp16 must have room for where the communicator is shrunk
# (coll/plan.h); an average of integers cannot be run on one.
@test "averages over two nodes are averages, in capture and replayed" {
    averages_on_two '' 2
    replayed 0 2 "$PRISM_BUILD/test/averages" 2
    rm -rf two
    averages_on_two floating 0
    replayed 2 0 "$PRISM_BUILD/test/averages" 2 floating
    rm -rf two
    PRISM_PAYLOAD=none averages_on_two '' 2 # nothing is kept: outputs are made where a rank gets them
    nothing_left
}

# Each node knows its own ranks' only.
@test "NVTX ranges on two nodes: the iterations of one" {
    local program=("$PRISM_BUILD/test/ranges" validates 7 named)
    export PRISM_ITERATION_RANGE="iteration 0"
    run_prism run --emulate=4 --gpus-per-node=2 --sandbox=0 --trace=one --phase=capture -- "${program[@]}"
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    capture_on_two 4
    both_nodes "${program[@]}"
    grep -q "7 iterations (by the program's NVTX ranges)" 0.err
    "$PRISM_BUILD/test/fold_compare" one/graph.bin two/graph.bin
    grep -q '"iterations": 7' two/trace.json
    nothing_left
}

@test "a node that is lost in capture: no graph.bin, an incomplete trace" {
    local first rank
    capture_on_two 4
    export PRISM_STALL_SECONDS=0
    echo 'hang 2 100' >fault # it does not end before the node is lost
    node 0 "$looper" fault 1000 20
    first=$started
    node 1 "$looper" fault 1000 20
    rank=$(rank_pid 3)
    [ -e "/proc/$rank" ]
    kill -KILL "$(pgrep -P "$started")"
    status=0
    wait "$first" || status=$?
    wait "$started" || true
    errors=$(cat 0.err)
    refused 68 'node'
    [ ! -e two/graph.bin ] && [ -z "$(compgen -G 'two/*.tmp*')" ]
    run_prism verify two
    refused 65 'graph.bin|incomplete'
    grep -q '"complete": false' two/trace.json
    nothing_left
}

# Which key is known where the store is, who stands at gates on the rank's own node.
@test "a live rank of the second node that waits in the store for what no capture has seen" {
    capture_on_two 4
    node 1 "$looper" fault 5 1
    local other=$started
    node 0 "$looper" fault 5 1
    wait "$started" && wait "$other" || { cat ./*.err; false; }
    echo 'wait 3 2' >fault
    export PRISM_PHASE=calibrate PRISM_STALL_SECONDS=1
    node 1 "$looper" fault 5 1
    other=$started
    node 0 "$looper" fault 5 1
    status=0
    wait "$started" || status=$?
    wait "$other" || true
    errors=$(cat 0.err)
    refused 69 'rank 3 waits in the c10d store for "looper/nobody", which nobody sets'
    nothing_left
}

@test "a node that cannot read the trace: one line, no crash" {
    local program=("$moetrain" --tp=2 --pp=2 --iterations=2) other
    unshare -m true 2>/dev/null || skip "no mount namespaces here"
    capture_on_two 4
    node 1 "${program[@]}"
    other=$started
    node 0 "${program[@]}"
    wait "$started" && wait "$other" || { cat ./*.err; false; }
    export PRISM_PHASE=calibrate
    echo damaged >graph
    SOFTGPU_NODE=1 PRISM_NODE_ID=1 timeout 100 unshare -m sh -c 'mount --bind graph two/graph.bin; exec "$@"' sh \
        "$PRISM_BUILD/bin/prismd" "${program[@]}" >1.out 2>1.err 3>&- &
    other=$!
    node 0 "${program[@]}"
    status=0
    wait "$started" || status=$?
    wait "$other" || true
    errors=$(cat 0.err)
    refused 65 'graph.bin is damaged'
    nothing_left
}

# The trace's mode, and what the first node was told, hold for all.
@test "control mode on two nodes: each makes its own ranks' large results" {
    local program=("$PRISM_BUILD/test/gradients" 1 3) number run other pattern='-0.03125 0.00968137 -0.00943627'
    capture_on_two 4
    export PRISM_PHASE=auto PRISM_SANDBOX=0,2
    for run in captured again; do
        node 1 "${program[@]}"
        other=$started
        [ "$run" = again ] || export PRISM_PAYLOAD=control
        node 0 "${program[@]}"
        unset PRISM_PAYLOAD
        wait "$started" || { cat ./*.err; false; }
        wait "$other"
        for number in 0 1; do
            [ "$(grep -c "^rank $((2 * number)) gradients $pattern other $pattern\$" "$number.out")" -eq 3 ]
            grep -qx "rank $((2 * number)) iteration 2 loss 30 norm 5 count 2101248" "$number.out"
        done
        python3 -c 'import json; r = json.load(open("two/report.json")); assert r["payload"] == "control" and r["nodes"] == 2, r'
    done
    nothing_left
}
