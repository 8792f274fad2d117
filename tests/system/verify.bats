#!/usr/bin/env bats
# prism verify, and captures of programs that hang or do not agree: they end, and say who waits for whom.

load common

setup() {
    common_setup
    clash=$PRISM_BUILD/test/clash
    export PRISM_STALL_SECONDS=1
}
teardown() { common_teardown; }

captured() { # WHAT [AT]
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --trace=trace --phase=capture -- "$clash" "$@"
}

# What verify says of the kept trace: a finding of that kind, of that rank, with these words.   found KIND RANK PATTERN...
found() {
    local kind=$1 rank=$2
    shift 2
    run_prism verify trace --json
    [ "$status" -eq 65 ]
    python3 -c '
import json, re, sys
r = json.load(sys.stdin)
kind, rank, *patterns = sys.argv[1:]
f = [x for x in r["findings"] if re.fullmatch(kind, x["kind"]) and rank in ("any", str(x["rank"]))]
assert f, r
for p in patterns:
    assert re.search(p, f[0]["text"]), (p, f[0]["text"])
assert not r["good"] and not r["complete"]' "$kind" "$rank" "$@" <<<"$output"
    run_prism verify trace
    refused 65 'did not end well'
}

hangs() { # WHAT [AT]
    captured "$@"
    refused 73 'hangs'
    nothing_left
}

@test "ranks that use two communicators in opposite order: a ring" {
    hangs ring
    grep -qE 'ring: 2 ranks wait in a ring: rank 0 waits in AllReduce.*communicator 0.*for rank 1' <<<"$errors" || { echo "$errors"; false; }
    found ring 0 'rank 0 waits in AllReduce of 1024 x fp32 \(.*on communicator 0 of ranks 0-3' 'rank 1 waits in AllReduce.*communicator 1'
}

@test "a receive that nobody sends for, in the sixth iteration" {
    hangs receive 5
    grep -qE 'rank 3 in Recv|rank 3 waits in Recv' <<<"$errors" || { echo "$errors"; false; }
    found ring 0 'Recv of 1024 x fp32 from rank 0 \(iteration 6, micro-batch 1' 'for rank 3'
}

@test "a communicator that one rank does not make" {
    hangs init
    grep -qE 'communicator: ncclCommInitRank of 4: the ranks 0,2-3 have called, 1 have not' <<<"$errors" || { echo "$errors"; false; }
    found missing 0 'rank 1 waits? for rank 0' 'waits in ncclCommInitRank'
    grep -q 'communicator: ncclCommInitRank of 4' <<<"$output"
}

@test "a rank that sleeps for ever" {
    hangs sleep
    found missing 1 'ranks 0,2-3 \(3\) wait for rank 1' 'its host has made no call' '3 ranks wait'
}

@test "a rank that computes is waited for, however long" {
    captured busy
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    run_prism verify trace
    [ "$status" -eq 0 ]
    grep -q 'good' <<<"$output"
    nothing_left
}

disagrees() { # WHAT KIND PATTERN...
    local what=$1 kind=$2
    shift 2
    captured "$what"
    refused 67 'do not agree'
    # The run ends at once: not every rank may have come so far.
    found "$kind" any "$@"
    nothing_left
}

@test "another count, datatype, root" {
    disagrees count mismatch 'count at rank' 'rank 2 calls Broadcast of 512 x fp32'
    disagrees type mismatch 'datatype at rank' 'rank 2 calls Broadcast of 1024 x int32'
    disagrees root mismatch 'root at rank' 'call Broadcast of 1024 x fp32, root rank 0|calls Broadcast of 1024 x fp32, root rank 0' 'rank 2 calls .*root rank 1'
}

@test "another order" {
    disagrees order 'order|mismatch' 'rank 2 calls AllGather of 1024 x fp32'
}

@test "on two nodes: the coordinator has both nodes' ranks" {
    local other
    export PRISM_NODES=2 PRISM_STEP_ID=hang PRISM_EMULATE=4 PRISM_GPUS_PER_NODE=2 PRISM_SANDBOX=0 PRISM_PHASE=capture PRISM_TRACE=$PWD/trace
    SOFTGPU_NODE=1 PRISM_NODE_ID=1 timeout 300 "$PRISM_BUILD/bin/prismd" "$clash" sleep >out.1 2>err.1 3>&- &
    other=$!
    status=0
    SOFTGPU_NODE=0 PRISM_NODE_ID=0 timeout 300 "$PRISM_BUILD/bin/prismd" "$clash" sleep >out.0 2>err.0 3>&- || status=$?
    wait "$other" || true
    [ "$status" -eq 73 ] || { cat err.0 err.1; return 1; }
    unset PRISM_NODES PRISM_STEP_ID PRISM_EMULATE PRISM_GPUS_PER_NODE PRISM_SANDBOX PRISM_PHASE PRISM_TRACE
    found missing 1 'ranks 0,2-3 \(3\) wait for rank 1' 'its host has made no call' '3 ranks wait'
    nothing_left
}

@test "what an earlier hang left does not outlive a good capture" {
    hangs ring
    [ -e trace/hang.json ]
    captured none
    [ "$status" -eq 0 ]
    [ ! -e trace/hang.json ]
    run_prism verify trace
    [ "$status" -eq 0 ]
}
