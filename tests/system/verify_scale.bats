#!/usr/bin/env bats
# prism verify at 8,192 ranks: what one of them does wrong is found, and said by rank, operation, iteration and micro-batch.

load common

setup_file() {
    cat >"$BATS_FILE_TMPDIR/job.conf" <<'J'
name = "job"; layers = 16; iterations = 5;
layout = { tp = 8; pp = 16; dp = 64; micro_batches = 8; };
steps = { forward = ( { compute_us = 100.0; op = "AllGather"; group = "tp"; bytes = 65536; }, { op = "ReduceScatter"; group = "tp"; bytes = 65536; } );
    backward = ( { compute_us = 200.0; op = "AllGather"; group = "tp"; bytes = 65536; }, { op = "ReduceScatter"; group = "tp"; bytes = 65536; } );
    stage_bytes = 8388608;
    end = ( { op = "AllReduce"; group = "dp"; bytes = 1048576; }, { op = "AllGather"; group = "tp"; bytes = 65536; }, { op = "AllReduce"; group = "world"; bytes = 8; } ); };
J
    (load common && "$prism" synth "$BATS_FILE_TMPDIR/job.conf" -o "$BATS_FILE_TMPDIR/job")
}
setup() { common_setup; }
teardown() { common_teardown; }

# Rank 4097 is of stage 8, tensor rank 1, replica 0: its neighbours are 4096 to 4103, 3585 (stage 7) and 4105 (replica 1).
# An iteration of it has 17 AllGather (of which one is behind the all-reduce), 16 ReduceScatter, 2 AllReduce, 15 groups with a Send.
planted() { # FAULT OP NUMBER [incomplete]
    rm -rf trace
    cp -r "$BATS_FILE_TMPDIR/job" trace
    "$PRISM_BUILD/test/misfit" trace "$1" 4097 "$2" "$3" ${4:+"$4"}
}

said() { # KIND PATTERN...: the first finding
    run_prism verify trace --json
    [ "$status" -eq 65 ]
    python3 -c '
import json, re, sys
r = json.load(sys.stdin)
kind, *patterns = sys.argv[1:]
f = r["findings"][0]
assert f["kind"] == kind, r
for p in patterns:
    assert re.search(p, f["text"]), (p, f["text"])' "$@" <<<"$output"
}

@test "a good trace of 8,192 ranks is good" {
    run_prism verify "$BATS_FILE_TMPDIR/job"
    [ "$status" -eq 0 ]
}

@test "another count, datatype, root, order" {
    planted count AllGather 30
    said mismatch "count at rank 4097's iteration 2, micro-batch 6" '4096,4098-4103 \(7\) call AllGather of 32768 x bf16, but rank 4097 calls AllGather of 32769'
    planted datatype AllReduce 2
    said mismatch "datatype at rank 4097's iteration 2, micro-batch 8" 'rank 4097 calls AllReduce of 524288 x int32'
    planted root AllReduce 2
    said mismatch "root at rank 4097's iteration 2" 'but rank 4097 calls Broadcast of 524288 x bf16, root rank 4097'
    planted swap AllGather 30
    said order "another order at rank 4097's iteration 2, micro-batch 6" 'call AllGather.*but rank 4097 calls ReduceScatter'
}

@test "a send that nobody receives, a collective and a rank that are missing" {
    planted drop Recv 20
    said unmatched 'rank 3585 .* calls Send of 4194304 x bf16 to rank 4097' 'messages in iteration 2: 8 Send by rank 3585, 7 Recv by rank 4097'
    planted drop AllReduce 2
    said ring 'rank 4105 waits in AllReduce of 524288 x bf16 \(iteration 2.*for rank 4097; collectives on it in iteration 2: 1 calls by rank 4105, 0 calls by rank 4097'
    planted end AllReduce 2
    said missing '\(70\) wait for rank 4097' 'AllGather of 32768 x bf16 \(iteration 2' 'its last call is Send .*iteration 2, micro-batch 8' '8191 ranks wait'
}

@test "two communicators in opposite order: a ring" {
    planted swap AllGather 33
    said ring '2 ranks wait in a ring: rank 4096 waits in AllGather .*\(iteration 2, micro-batch 8' 'for rank 4097, rank 4097 waits in AllReduce of 4 x bf16 .*of ranks 0-8191' '8192 wait'
}

@test "what a capture that hung leaves: the same words" {
    planted swap AllGather 67 incomplete
    said ring 'rank 4096 waits in AllGather .*\(iteration 4, micro-batch 8' 'for rank 4097, rank 4097 waits in AllReduce .*\(iteration 4'
    planted end AllReduce 6 incomplete
    said missing 'for rank 4097' 'its last call is Send .*iteration 4, micro-batch 8' '8191 ranks wait'
    run_prism verify trace
    refused 65 'did not end well'
}
