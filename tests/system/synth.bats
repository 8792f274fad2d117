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
    # A trace of the preset's own name is not taken for the job.
    run_prism synth qwen3-moe-512 -o qwen3-moe-512
    ok
    run_prism synth qwen3-moe-512 -o qwen3-moe-512
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

predicted() { # CHECKS in Python on r and bubble(p, m, v)
    run_prism predict "${2:-job}" --json ${3:-}
    ok
    python3 -c '
import json, sys
r = json.load(sys.stdin)
near = lambda a, b: abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1e-6)
exec(sys.argv[1])' "$1" <<<"$output"
}

# Computation only, t = 3 + 7 ms: iteration (M + (P-1)/V) t, each rank in the bubble for (P-1)/V t of it.
@test "the bubble of 1F1B and interleaved 1F1B is the formula's" {
    local shape
    for shape in '4 1 8' '8 1 4' '4 2 8'; do
        # shellcheck disable=SC2086
        pipeline $shape
        # shellcheck disable=SC2086
        set -- $shape
        predicted "
p, v, m, t = $1, $2, $3, 0.003 * $2 + 0.007 * $2
assert len(r['stages']) == p and near(r['median_seconds'], (m + (p - 1) / v) * t), r
for s in r['stages']:
    assert near(s['compute'], m * t) and near(s['bubble'], (p - 1) / v * t) and s['exposed_communication'] < 1e-6, s
    assert near(s['bubble'] / r['median_seconds'], (p - 1) / (m * v + p - 1)), s
c = r['critical_path']
assert near(c['compute'], r['median_seconds']) and sum(x['to'] - x['from'] for x in c['spans']) - c['compute'] < 1e-6, c"
    done
}

# Data-parallel sums on one node, without latency: 2 (n-1)/n S/B for the all-reduce, (n-1)/n S/B for a reduce-scatter.
@test "a ring's time is the formula's, exposed and hidden" {
    unset PRISM_NETWORK
    cat >job.conf <<'J'
layers = 2; layout = { dp = 8; };
cluster = { gpus_per_node = 8; launch_us = 0.0; intra_step_us = 0.0; intra_bandwidth = 1.0e11; tree_allreduce = false; };
steps = { forward = ( { compute_us = 3000.0; } ); backward = ( { compute_us = 7000.0; } ); grad_bytes = 50000000;
    end = ( { op = "AllReduce"; group = "dp"; bytes = 800000000; } ); };
J
    run_prism synth job.conf -o job
    ok
    # Layer 2's 7 * 50 MB / (100 GB/s) = 3.5 ms beside layer 1's 7 ms, layer 1's behind it; then 2 * 7/8 * 8 ms.
    predicted '
m = r["mean"]
assert near(m["compute"], 0.020) and near(m["hidden_communication"], 0.0035) and near(m["exposed_communication"], 0.0035 + 0.014), m
assert near(r["median_seconds"], 0.0375) and near(m["bubble"], 0), r'
}

# One slow rank of a pipeline's last stage: everyone waits for it, M times.
@test "predict --slow, --compare, --network, --ranks" {
    pipeline 4 1 8
    predicted '
assert near(r["median_seconds"], 11 * 0.010 + 8 * 0.005), r
assert near(r["rank_breakdowns"]["7"]["compute"], 0.120) and near(r["rank_breakdowns"]["6"]["compute"], 0.080), r
assert len(r["ranks"]["7"]) == 2' job '--slow=7=1.5 --ranks=6,7'
    # Replica 1 waits for its slow last stage, M times 5 ms; replica 0 is there so much earlier, on every stage.
    predicted '
s = r["slack_seconds"]
assert len(s["ranks"]) == 8 and all(near(s["ranks"][i], 8 * 0.005) if i % 2 == 0 else s["ranks"][i] < 1e-8 for i in range(8)), s
assert [x["ranks"] for x in s["stages"]] == [2] * 4 and all(near(x["most"], 8 * 0.005) for x in s["stages"]), s' job '--slow=7=1.5 --slack'
    run_prism predict job --slack
    ok
    [[ "$output" == *"without slack"* ]]
    run_prism predict --compare job job --slow=7=1.5 --json
    ok
    python3 -c '
import json, sys
r = json.load(sys.stdin)
assert abs(r["difference"] - 0.040 / 0.110) < 1e-6 and r["a"]["median_seconds"] < r["b"]["median_seconds"], r' <<<"$output"
    run_prism predict --compare job job --slow=7=1.5
    ok
    grep -qE 'iteration +110.0.* ms +150.0.* ms +\+36\.36 %' <<<"$output"
    run_prism predict job --network="$PRISM_SOURCE/tests/fixtures/network.json"
    ok
    grep -q 'fixtures/network.json' <<<"$output"
    grep -qE '^  3 +2 .*bubble|^  3 +2 ' <<<"$output"
    for wrong in 7 x=2 8=2 7=-1 '7=1;2=2'; do
        run_prism predict job --slow="$wrong"
        refused 64 'slow|no rank'
    done
    run_prism predict --compare job
    refused 64 'two traces'
}

# A network profile with links of LAUNCH, STEP seconds and BANDWIDTH bytes a second, rings only, no eager sends.
network_file() { # LAUNCH STEP BANDWIDTH
    local link="{\"launch_seconds\": $1, \"step_seconds\": $2, \"bandwidth_bytes_per_second\": $3, \"eager_bytes\": 0, \"measured\": true}"
    echo "{\"format\": \"prism-network\", \"version\": 1, \"links\": {\"intra_node\": $link, \"inter_node\": $link},
        \"algorithms\": {\"tree_allreduce\": false, \"tree_rooted\": false, \"lockstep\": true}, \"fit_error\": 0.0, \"points\": []}" >network.json
}

# peer: 16 stages of 4 layers, 32 micro-batches; a layer computes 2 * 1 ms forward and 2 * 2 ms backward. Worked by hand: on a network that
# takes no time (M + P - 1) (F + B). Where only all-reduces of 64 MiB over 8 ranks take time, A each, F and B are longer by 8 A.
@test "the preset of 8,192 ranks is the formula's, on networks given by --network" {
    unset PRISM_NETWORK
    run_prism synth peer -o peer
    ok
    network_file 0.0 0.0 1.0e18
    predicted '
assert r["world"] == 8192 and near(r["median_seconds"], (32 + 15) * 4 * 0.006), r["median_seconds"]
for s in r["stages"]:
    assert near(s["compute"], 32 * 4 * 0.006) and near(s["bubble"], 15 * 4 * 0.006) and s["exposed_communication"] < 1e-6, s' peer --network=network.json
    # A = 2 * 7/8 * 64 MiB / (100 GB/s); a stage passes 8 MiB on to the next, 15 times forward and 15 back behind the pipeline, and while
    # its last stages take turns; the sum over 64 replicas is 2 * 63/64 * 1 GiB / (100 GB/s).
    network_file 0.0 0.0 1.0e11
    predicted '
a, s, d = 2 * 7 / 8 * 2**26 / 1e11, 2**23 / 1e11, 2 * 63 / 64 * 2**30 / 1e11
f, b = 4 * 0.002 + 8 * a, 4 * 0.004 + 8 * a
least = (32 + 15) * (f + b) + 2 * 15 * s + d
assert least <= r["median_seconds"] <= least + 2 * 32 * s, (least, r["median_seconds"])
assert near(r["stages"][15]["compute"], 32 * 4 * 0.006), r["stages"][15]' peer --network=network.json
}

# The job of player.c: rank 0 runs for real among synthetic ranks, for longer than the trace, at the predicted pace.
@test "a synthetic trace is replayed around a program that does what its rank does" {
    unset PRISM_NETWORK
    cat >job.conf <<'J'
layers = 1; iterations = 2; layout = { tp = 2; dp = 2; micro_batches = 2; };
cluster = { gpus_per_node = 4; intra_bandwidth = 1.0e8; launch_us = 50.0; intra_step_us = 50.0; };
steps = { forward = ( { compute_us = 5000.0; op = "AllReduce"; group = "tp"; bytes = 65536; } );
    backward = ( { compute_us = 10000.0; op = "AllReduce"; group = "tp"; bytes = 65536; } );
    end = ( { op = "AllReduce"; group = "dp"; bytes = 524288; } ); };
J
    run_prism synth job.conf -o job -- "$PRISM_BUILD/test/player" 5
    ok
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --payload=none --trace=job --phase=emulate \
        -- "$PRISM_BUILD/test/player" 5
    ok
    grep -q 'rank 0 done' <<<"$output"
    python3 -c '
import json
r = json.load(open("job/report.json"))
predicted, measured = r["predicted_seconds"]["mean"], sorted(r["iteration_seconds"]["0"][1:])
assert len(measured) == 4 and abs(measured[1] - predicted) < 0.2 * predicted, (measured, predicted)'
    nothing_left
}

@test "sample traces come with checksums" {
    run "$BATS_TEST_DIRNAME/../samples.sh" "$PRISM_BUILD" samples peer
    [ "$status" -eq 0 ]
    (cd samples && sha256sum --quiet -c SHA256SUMS && [ "$(wc -l <SHA256SUMS)" -ge 3 ])
    run_prism verify samples/peer
    ok
}
