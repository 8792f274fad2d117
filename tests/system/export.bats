#!/usr/bin/env bats
# prism export: each form read by a reader of its own (export_check.py).

load common

setup() { common_setup; unset PRISM_NETWORK; }
teardown() { common_teardown; }

ok() { [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }; }
check() { python3 "$PRISM_SOURCE/tests/system/export_check.py" "$@"; }

# A job of tp 2 x pp 4 x dp 2 on a network that takes no time.
instant() {
    cat >job.conf <<'J'
name = "instant"; layers = 8; iterations = 2;
layout = { tp = 2; pp = 4; dp = 2; micro_batches = 6; };
cluster = { launch_us = 0.0; intra_step_us = 0.0; inter_step_us = 0.0; intra_bandwidth = 1.0e18; inter_bandwidth = 1.0e18; eager_bytes = 0; };
steps = { forward = ( { compute_us = 300.4; op = "AllReduce"; group = "tp"; bytes = 4096; } );
    backward = ( { compute_us = 10000.001; op = "AllReduce"; group = "tp"; bytes = 4096; } ); stage_bytes = 1024;
    end = ( { op = "AllReduce"; group = "dp"; bytes = 1024; } ); };
J
    run_prism synth job.conf -o job
    ok
    run_prism export job -o all.csv
    ok
}

@test "csv: every node, or those of chosen ranks and iterations" {
    instant
    [ "$(tail -n +2 all.csv | cut -d, -f1 | sort -u | wc -l)" -eq 16 ]
    run_prism export job --ranks=3,5 -o some.csv
    ok
    diff <(awk -F, 'NR == 1 || $1 == 3 || $1 == 5' all.csv | sort) <(sort some.csv)
    # The two iterations are the whole: this job has neither set-up nor teardown.
    for i in 0 1; do
        run_prism export job --iterations=$i -o "$i.csv"
        ok
    done
    diff <(sort all.csv) <(cat 0.csv <(tail -n +2 1.csv) | sort)
    run_prism export job --iterations=0
    ok
    [ "$output" = "$(cat 0.csv)" ]
}

@test "perfetto: keeps the format's rules, ends when the CSV does" {
    instant
    run_prism export job --format=perfetto -o all.json
    ok
    run check perfetto all.json all.csv
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"16 ranks" ]]
    run_prism export job --format=perfetto --ranks=1,14 --iterations=0 -o some.json
    ok
    run_prism export job --iterations=0 -o 0.csv
    check perfetto some.json 0.csv | grep -q ' 0 of communication, 0 messages, 2 ranks'
    # Where operations take time, each group has its event, each message its flow: 2 iterations of 6 micro-batches go forward
    # and back over 3 borders of stages, in 4 pipelines.
    local network=$PRISM_SOURCE/tests/fixtures/network.json
    run_prism export job --network="$network" --format=perfetto -o timed.json
    run_prism export job --network="$network" -o timed.csv
    run check perfetto timed.json timed.csv
    echo "$output"
    [[ $output == *" $(grep -c ',comm,' timed.csv) of communication, $((2 * 6 * 2 * 3 * 4)) messages, 16 ranks" ]]
    run_prism export job --network="$network" --ranks=0-3 --format=perfetto -o one_stage.json
    check perfetto one_stage.json timed.csv | grep -q ', 0 messages, 4 ranks'

}

@test "chakra: the dependencies alone give the timeline" {
    instant
    run_prism export job --format=chakra -o et
    ok
    [ "$(ls et | grep -c '^trace\.[0-9]*\.et$')" -eq 16 ]
    run check chakra et all.csv
    echo "$output"
    [ "$status" -eq 0 ]
    # Of a damaged file the reader complains: it can fail.
    head -c -1 et/trace.3.et >cut && mv cut et/trace.3.et
    run check chakra et all.csv
    [ "$status" -ne 0 ]
}

@test "chakra: streams, events and host threads of a captured program" {
    run_prism run --emulate=8 --gpus-per-node=8 --sandbox=0 --phase=capture --trace=trace -- "$moetrain" --tp=2 --pp=2 --ep=2 --iterations=3
    ok
    run_prism export trace --format=chakra -o et
    ok
    python3 - "$PRISM_SOURCE/tests/system" <<'P'
import json, sys
sys.path.insert(0, sys.argv[1])
import export_check as e
ranks = e.load("et")
e.match(ranks, json.load(open("et/comm_groups.json")))
e.play(ranks)
assert len(ranks) == 8 and all(any(n["type"] == e.COLL for n in nodes) for nodes in ranks.values())
P
}

@test "chakra: Google's protobuf reads the same" {
    /usr/bin/python3 -c 'import google.protobuf' 2>/dev/null || skip "python3-protobuf is not installed"
    instant
    run_prism export job --format=chakra -o et --ranks=0-3
    ok
    run /usr/bin/python3 "$PRISM_SOURCE/tests/system/export_check.py" protobuf et/trace.1.et
    echo "$output"
    [ "$status" -eq 0 ]
    # Stage 0, 2 iterations of 6 micro-batches: sends forward, receives back; 2 layers and their all-reduces, and one at the end.
    python3 -c 'import json,sys; n = json.loads(sys.argv[1]); assert (n["5"], n["6"], n["7"]) == (12, 12, 2 * (6 * 4 + 1)), n' "$output"
}

@test "what it refuses" {
    instant
    run_prism export job --format=xml
    refused 64 'format=xml'
    run_prism export job --format=chakra
    refused 64 'output'
    run_prism export job --ranks=16
    refused 64 'no rank 16'
    run_prism export job --iterations=2
    refused 64 'iterations 0 to 1'
    run_prism export job -o nowhere/file
    refused 71 'nowhere/file'
    if [ -c /dev/full ]; then
        ln -s /dev/full full
        run_prism export job -o full
        refused 71 'full'
    fi
    run_prism export nowhere
    refused 65 'nowhere'
}
