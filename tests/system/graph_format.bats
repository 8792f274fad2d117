#!/usr/bin/env bats
# docs/formats/prismtrace.md and graph.md are what we write: a decoder made of these pages alone (graph_check.py) reads it all.

load common

setup() { common_setup; }
teardown() { common_teardown; }

export PYTHONDONTWRITEBYTECODE=1
check() { python3 "$BATS_TEST_DIRNAME/graph_check.py" "$@"; }

exported() { # TRACE: its nodes are those that `prism export` has
    run_prism export "$1" -o nodes.csv
    [ "$status" -eq 0 ] || { echo "$errors"; return 1; }
    check csv "$1/graph.bin" nodes.csv
}

@test "golden files of all versions hold the same graph" {
    cd "$PRISM_SOURCE"
    [ "$(ls lib/graph/test/golden)" = $'graph-v1.bin\ngraph-v2.bin' ]
    check same lib/graph/test/golden/*.bin
}

@test "a synthetic trace, with works" {
    unset PRISM_NETWORK
    cat >job.conf <<'J'
layers = 4; iterations = 3; layout = { tp = 2; pp = 4; dp = 4; ep = 4; micro_batches = 4; };
model = { hidden = 1024; heads = 16; ffn = 512; vocab = 1000; sequence = 1024; experts = 8; top_k = 2; overlap_grads = true; };
J
    run_prism synth job.conf -o job
    [ "$status" -eq 0 ]
    exported job
}

@test "a captured trace: exchanges, uneven counts, several streams, host threads" {
    run_prism run --emulate=8 --gpus-per-node=8 --sandbox=0 --trace=trace --phase=capture \
        -- "$moetrain" --tp=2 --pp=2 --ep=2 --iterations=3
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    exported trace
}

@test "one rank, or communicator, is read without the rest, whatever that is" {
    unset PRISM_NETWORK
    cat >job.conf <<'J'
layers = 4; iterations = 2; layout = { tp = 2; pp = 2; dp = 4; ep = 4; micro_batches = 4; };
model = { hidden = 1024; heads = 16; ffn = 512; vocab = 1000; sequence = 1024; experts = 8; top_k = 2; imbalance = 0.1; };
J
    run_prism synth job.conf -o job
    [ "$status" -eq 0 ]
    run_prism export job --ranks=3 -o nodes.csv
    [ "$status" -eq 0 ]
    # A bit of the works of the last rank.
    PYTHONPATH=$BATS_TEST_DIRNAME python3 -c '
import graph_check
data = bytearray(open("job/graph.bin", "rb").read())
at, stored = [c for c in graph_check.chunks_of(bytes(data)) if c[0] == graph_check.WORKS][-1][3]
data[at + 48 + stored // 2] ^= 1
open("job/graph.bin", "wb").write(data)'
    run_prism info job
    refused 65 'damaged'
    run_prism info job --rank=15
    refused 65 'a rank is not whole'
    run_prism info job --rank=3 --json
    [ "$status" -eq 0 ]
    python3 -c '
import csv, json, sys
r = json.load(sys.stdin)
lines = [x for x in csv.DictReader(open("nodes.csv")) if x["kind"] == "comm"]
assert r["rank"] == 3 and r["measured"] and len(r["groups"]) == len(lines), r
for g, line in zip(r["groups"], sorted(lines, key=lambda x: int(x["node"]))):
    assert (g["node"], g["group"]) == (int(line["node"]), int(line["group"])) and line["name"].split()[0] == g["operations"][0]["op"], (g, line)
sends = [p for g in r["groups"] for p in g["operations"] if p["op"] == "Send"]
assert {p["peer"] for p in sends} == {11}, sends' <<<"$output"
    run_prism info job --communicator=0
    [ "$status" -eq 0 ]
    grep -qE '^communicator 0: ranks 0.?1$' <<<"$output" && grep -qE '^ +1 .* 0 +[0-9]+  AllGather of [0-9]+ x bf16$' <<<"$output"
    for wrong in --rank=16 --rank=x --communicator=99 '--rank=0 --communicator=0'; do
        # shellcheck disable=SC2086
        run_prism info job $wrong
        refused 64 'rank|communicator'
    done
}

@test "a file of a later version is refused with both versions, by whatever reads it" {
    unset PRISM_NETWORK
    printf 'layers = 1; layout = { dp = 2; };\nsteps = { forward = ( { compute_us = 1.0; } ); end = ( { op = "AllReduce"; group = "dp"; bytes = 8; } ); };\n' >job.conf
    run_prism synth job.conf -o job
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    printf '\003' | dd of=job/graph.bin bs=1 seek=8 conv=notrunc status=none
    for command in info verify predict export; do
        run_prism "$command" job
        refused 65 'graph.bin is of version 3, this Prism reads versions 1 and 2'
        one_line
    done
    printf '\002' | dd of=job/graph.bin bs=1 seek=8 conv=notrunc status=none
    sed -i 's/"version": 3/"version": 4/' job/trace.json
    run_prism info job
    refused 65 'trace.json is of trace version 4, this Prism reads versions 1 to 3'
}
