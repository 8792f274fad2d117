#!/usr/bin/env bats
# prism plot: numbers against formulas, pixels against the numbers.

load common

setup() {
    common_setup
    unset PRISM_NETWORK
    if LD_LIBRARY_PATH='' "$prism" plot nowhere -o x.svg 2>&1 | grep -q 'built without cairo'; then
        skip "built without cairo"
    fi
}
teardown() { common_teardown; }

ok() { [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }; }

# 1F1B of computation only on a network that takes no time: of (M + PP - 1) rounds each stage idles PP - 1.   pipeline PP M DP
pipeline() {
    cat >job.conf <<J
name = "pipeline"; layers = $1; iterations = 2;
layout = { tp = 1; pp = $1; dp = $3; micro_batches = $2; };
cluster = { launch_us = 0.0; intra_step_us = 0.0; inter_step_us = 0.0; intra_bandwidth = 1.0e18; inter_bandwidth = 1.0e18; eager_bytes = 0; };
steps = { forward = ( { compute_us = 3000.0; } ); backward = ( { compute_us = 7000.0; } ); stage_bytes = 1024;
    end = ( { op = "AllReduce"; group = "dp"; bytes = 1024; } ); };
J
    run_prism synth job.conf -o job
    ok
}

@test "the bubble is what the formula says, in numbers and in pixels" {
    pipeline 4 8 2
    run_prism plot job -o all.png --iterations=0 --json
    ok
    python3 - "$output" <<'P'
import json, sys
j = json.loads(sys.argv[1])
assert abs(j["seconds"] - 11 * 0.010) < 1e-6, j
assert [r["stage"] for r in j["ranks"]] == [0, 0, 1, 1, 2, 2, 3, 3], j
for r in j["ranks"]:
    assert abs(r["idle"] - 3 / 11) < 1e-4 and abs(r["compute"] - 8 / 11) < 1e-4, r
P
    python3 "$PRISM_SOURCE/tests/system/plot_check.py" all.png 0072b2 e6e6e6 >rows
    [ "$(head -n 1 rows | cut -d' ' -f1)" -eq 1600 ]
    # Eight strips of 22 pixels.
    tail -n +2 rows | awk -v want="$(python3 -c 'print(8 / 11)')" '{ n++; if ($1 > want + 0.01 || $1 < want - 0.01) bad++ } END { print n, bad + 0; exit !(n == 8 * 22 && bad == 0) }'
}

@test "which ranks are drawn when none are named" {
    pipeline 4 4 8
    run_prism plot job --json
    ok
    python3 - "$output" <<'P'
import json, sys
ranks = json.loads(sys.argv[1])["ranks"]
assert [(r["rank"], r["stage"], r["stands_for"]) for r in ranks] == [(0, 0, 8), (8, 1, 8), (16, 2, 8), (24, 3, 8)], ranks
P
    run_prism plot job --json --ranks=3,30-31
    ok
    [ "$(python3 -c 'import json,sys; print([r["rank"] for r in json.loads(sys.argv[1])["ranks"]])' "$output")" = '[3, 30, 31]' ]
}

@test "the same numbers as prism predict" {
    run_prism synth qwen3-moe-512 -o moe
    ok
    run_prism predict moe --json
    ok
    predicted=$output
    run_prism plot moe --json
    ok
    python3 - "$predicted" "$output" <<'P'
import json, sys
predicted, plotted = map(json.loads, sys.argv[1:])
assert len(plotted["ranks"]) == len(predicted["stages"]) == 8
for stage, rank in zip(predicted["stages"], plotted["ranks"]):
    for mine, theirs in ("compute", stage["compute"]), ("exposed_communication", stage["exposed_communication"]), ("idle", stage["bubble"] + stage["host"]):
        assert abs(rank[mine] * plotted["seconds"] - theirs) < 1e-5, (mine, stage, rank)
P
}

@test "4, 16 and 64 ranks, both pictures, SVG and PNG" {
    run_prism synth qwen3-moe-512 -o moe
    ok
    for ranks in 0,64,128,192 0-15 0-63; do
        for what in timeline utilisation; do
            for ending in svg png; do
                run_prism plot moe -o "picture.$ending" --what=$what --ranks=$ranks --width=1000
                ok
                [ -s "picture.$ending" ]
            done
            python3 - <<'P'
import xml.etree.ElementTree as tree
root = tree.parse("picture.svg").getroot()
assert root.tag.endswith("svg") and root.get("width").startswith("1000"), root.attrib
P
            head -c 8 picture.png | cmp - <(printf '\211PNG\r\n\032\n')
        done
    done
}

@test "what it refuses" {
    pipeline 2 2 1
    run_prism plot job
    refused 64 'output'
    run_prism plot job -o picture.gif
    refused 64 'svg or .png'
    run_prism plot job -o a.svg --what=pie
    refused 64 'what=pie'
    run_prism plot job -o a.svg --ranks=2
    refused 64 'no rank 2'
    run_prism plot job -o a.svg --iterations=0-2
    refused 64 'iterations 0 to 1'
    run_prism plot job -o a.svg --width=10
    refused 64 'width=10'
    for ending in svg png; do
        run_prism plot job -o "nowhere/a.$ending"
        refused 71 'nowhere/a'
    done
    # A machine without cairo: everything else still works.
    mkdir none && : >none/libcairo.so.2
    LD_LIBRARY_PATH=$PWD/none run_prism plot job -o a.svg
    refused 69 'libcairo'
    LD_LIBRARY_PATH=$PWD/none run_prism plot job --json
    ok
}

@test "a trace without times is refused" {
    looper_run capture 4 1
    ok
    run_prism plot trace -o a.svg
    refused 65 'not calibrated'
}
