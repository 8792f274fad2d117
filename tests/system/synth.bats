#!/usr/bin/env bats
# prism synth and what works on its traces: info, verify, predict, export.

load common

setup() { common_setup; }
teardown() { common_teardown; }

ok() { [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }; }

# A pipeline of computation only: the formulas are exact.   pipeline PP V M
pipeline() {
    cat >job.conf <<J
name = "pipeline"; layers = $(($1 * $2)); iterations = 2;
layout = { tp = 1; pp = $1; dp = 2; micro_batches = $3; virtual_stages = $2; };
cluster = { launch_us = 0.0; intra_step_us = 0.0; inter_step_us = 0.0; intra_bandwidth = 1.0e18; inter_bandwidth = 1.0e18; eager_bytes = 0; };
steps = { forward = ( { compute_us = 3000.0; } ); backward = ( { compute_us = 7000.0; } ); stage_bytes = 1024;
    end = ( { op = "AllReduce"; group = "dp"; bytes = 1024; } ); };
J
    unset PRISM_NETWORK
    run_prism synth job.conf -o job
    ok
}

@test "every preset is what its file says" {
    run_prism synth --list
    ok
    [ "$output" = "$(cd "$PRISM_SOURCE/etc/synth" && ls -- *.conf | sed 's/\.conf$//' | LC_ALL=C sort)" ]
    run_prism synth qwen3-moe-512 -o moe
    ok
    run_prism info moe --json
    python3 -c '
import json, sys
r = json.load(sys.stdin)
# 94 layers, 16 micro-batches, 64 replicas of a stage; four all-to-alls a layer, in both directions twice.
assert r["world"] == 512 and r["classes"] == 8 and r["complete"] and r["calibrated"], r
assert r["ops"]["AlltoAll"] == 94 * 16 * 64 * 4, r["ops"]
assert r["ops"]["Send"] == r["ops"]["Recv"] == 2 * 7 * 16 * 64, r["ops"]' <<<"$output"
    run_prism verify moe
    ok
}

@test "refused: no such job, no folder, a wrong word with its line" {
    run_prism synth nothing -o job
    refused 64 'nothing.*--list'
    run_prism synth peer
    refused 64 'folder'
    printf 'layers = 2;\nlayuot = { tp = 2; };\n' >job.conf
    run_prism synth job.conf -o job
    refused 64 'job.conf, line 2: layuot'
    one_line
    [ ! -e job ]
}
