#!/usr/bin/env bats
# The harness of tests/gpu on machines without a GPU: it must find planted differences, and its whole path runs on software
# GPUs with the example trainer as the program.

load common

setup() { common_setup; }
teardown() { common_teardown; }

drive() { # folder of programs
    run timeout 200 "$PRISM_SOURCE/tests/gpu/run" --soft --bin "$1" --lib "$PRISM_BUILD/lib" --out out --stages programs,pacing \
        --network "$PRISM_NETWORK" --programs pp --budget 180
    echo "$output"
}

@test "comparisons find a planted difference" {
    run timeout 60 python3 -m unittest discover -s "$PRISM_SOURCE/tests/gpu/test"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^OK$' <<<"$output"
}

@test "the driver captures, calibrates and emulates" {
    drive "$PRISM_BUILD/bin"
    [ "$status" -eq 0 ]
    python3 - <<'P'
import json
result = json.load(open("out/results.json"))
row = result["stages"]["programs"]["rows"][0]
assert row["passed"] and row["comparisons"]["real-emulated"]["bits_equal"] and row["report"]["world"] == 4, row
assert len(row["numbers"]["captured"]) == 4 and len(row["numbers"]["real"]["3"]["seconds"]) == 4
assert result["stages"]["pacing"]["rows"][0]["pacing_us"]["gates"] > 0
P
    [ -s out/logs.tgz ]
    nothing_left
}

@test "a program that computes something else under Prism is found" {
    mkdir bin
    ln -s "$PRISM_BUILD"/bin/* bin/
    rm bin/moetrain
    printf '#!/bin/sh\nexec "%s" "$@" ${PRISM_SOCKET:+--seed=77}\n' "$moetrain" >bin/moetrain
    chmod +x bin/moetrain
    drive "$PWD/bin"
    [ "$status" -eq 1 ]
    grep -q 'real-emulated: losses differ by' <<<"$output"
    nothing_left
}

@test "a world that does not fit: evictions, rates and the bound reach the page" {
    # How fast host memory is decides whether it passes.
    run timeout 200 "$PRISM_SOURCE/tests/gpu/run" --soft --bin "$PRISM_BUILD/bin" --lib "$PRISM_BUILD/lib" --out out \
        --stages overfull,switch --network "$PRISM_NETWORK" --programs ddp-16x12 --budget 180
    echo "$output"
    python3 - <<'P'
import json
stages = json.load(open("out/results.json"))["stages"]
row = stages["overfull"]["rows"][0]
assert row["passed"] and len(row["switching"]) == 2 and all(s["evictions"] and s["bytes_out"] for s in row["switching"]), row
assert row["comparisons"]["other-order"]["bits_equal"] and row["bound"]["seconds"] > 0 and len(row["capture_seconds"]) == 2, row
moves, *captures = stages["switch"]["rows"]
assert moves["passed"] and len(moves["wrong"]) == 4 and all(sum(of["gb"] for of in moves["moved"][way].values()) > 0 for way in ("out", "in")), moves
assert [r["out_share"] > 0 for r in captures] == [True, True], stages["switch"]
P
    "$PRISM_SOURCE/tests/gpu/page.py" out/results.json --output page.md
    grep -qE '^\| ddp-16x12 \| 16 \| .* \| bits \| .* \| passed \|$' page.md
    nothing_left
}

@test "an unknown stage is one line and exit code 64" {
    run "$PRISM_SOURCE/tests/gpu/run" --stages nonsense
    [ "$status" -eq 64 ]
    [ "$output" = "tests/gpu/run: no stage 'nonsense'; --list names them" ]
}

@test "PyTorch itself on software GPUs, its kernels doing nothing: captured, calibrated, emulated" {
    cc -std=c11 -Wall -Wextra -Werror -fsyntax-only "$PRISM_SOURCE/tests/gpu/blind/blind.c"
    local python found=
    for python in ${PRISM_TEST_PYTHONS:-}; do
        ! "$python" -c 'import torch; assert torch.version.cuda and torch.cuda.nccl' 2>/dev/null || found=$python
    done
    [ -n "$found" ] || skip "no PyTorch for CUDA in PRISM_TEST_PYTHONS"
    run timeout 900 "$PRISM_SOURCE/tests/gpu/run" --soft --blind "$found" --bin "$PRISM_BUILD/bin" --lib "$PRISM_BUILD/lib" --out out \
        --stages programs --network "$PRISM_NETWORK" --programs ep --steps capture,emulate --budget 880
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^ep  *world  4 passed' <<<"$output"
    nothing_left
}

@test "without a GPU, PyTorch or a built tree it is one line and exit code 69" {
    [ ! -e /dev/nvidiactl ] || skip "there is a GPU"
    local run=("$PRISM_SOURCE/tests/gpu/run" --lib "$PRISM_BUILD/lib" --out out --stages all)
    run "${run[@]}" --bin "$PWD/nowhere"
    [ "$status" -eq 69 ]
    [ "$output" = "tests/gpu/run: there is no prism in $PWD/nowhere: make all test-programs, or --bin and --lib" ]
    run env -u LD_LIBRARY_PATH "${run[@]}" --bin "$PRISM_BUILD/bin"
    [ "$status" -eq 69 ]
    [ "$output" = "tests/gpu/run: CUDA finds no GPU here (--soft rehearses on software GPUs)" ]
    # Software GPUs for one.
    run env LD_LIBRARY_PATH="$PRISM_BUILD/lib/softgpu" "${run[@]}" --bin "$PRISM_BUILD/bin" --python false
    [ "$status" -eq 69 ]
    [ "$output" = "tests/gpu/run: false cannot import PyTorch (--python names another): " ]
}

@test "Prism's own last line tells a refusal, and no name of a file does" {
    PYTHONPATH=$PRISM_SOURCE/tests/gpu python3 - <<'P'
from harness.scripts import last_word
ends = "prism: rank 0: its output ends with (all of it: /tmp/trace-refused-graph/logs/capture.rank0)"
assert last_word(f"{ends}\n prism: graph\nprism: rank 0 ended with exit code 1 in capture\n{ends}\nAllReduce") == "prism: rank 0 ended with exit code 1 in capture"
P
}

real() { # SCRIPT [arguments...]
    run timeout 280 "$PRISM_SOURCE/tests/gpu/$1" "$2" out --rehearse --network "$PRISM_NETWORK" --iterations 6 --minutes 4 "${@:3}"
    echo "$output"
}

@test "two GPUs: full, captured, calibrated, emulated; a page" {
    real two "$PRISM_BUILD" --stages programs --programs pp
    [ "$status" -eq 0 ]
    python3 - <<'P'
import json
result = json.load(open("out/two.json"))
row = result["programs"]["pp"]
assert [r["exit_code"] for r in row["full"]] == [0, 0] and row["nccl"]["report"]["transport"] == "nccl", row
assert row["nccl"]["ranks"]["0"]["bits"] == row["full"][0]["ranks"]["0"]["bits"] and len(row["paced"]["ranks"]["0"]["seconds"]) == 6
P
    grep -qE '\| pp \| 2 \| 0 \| nccl \| .* \| bits \(6\) \| equal ' <<<"$output"
    nothing_left
}

@test "four GPUs: two of the ranks on two, three and four; another loss under Prism is found" {
    real eight "$PRISM_BUILD" --gpus 4 --stages programs --programs tp-pp
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^\| tp-pp \| 4 \| [03] \| (paced|nccl|nccl-2) \| .* \| bits \(6\) \| equal ' <<<"$output")" -eq 6 ]
    python3 - <<'P'
import json
row = json.load(open("out/four.json"))["programs"]["tp-pp"]
assert [row[w]["devices"] for w in ("paced", "nccl", "nccl-2")] == [2, 3, 4]
P
    mkdir -p planted/bin
    ln -s "$PRISM_BUILD"/bin/* planted/bin/
    ln -s "$PRISM_BUILD/lib" "$PRISM_BUILD/test" planted/
    rm planted/bin/moetrain
    printf '#!/bin/sh\nexec "%s" "$@" ${PRISM_SOCKET:+--seed=77}\n' "$moetrain" >planted/bin/moetrain
    chmod +x planted/bin/moetrain
    rm -r out
    real eight planted --gpus 4 --stages programs --programs tp-pp
    absent 'bits \(6\)' - <<<"$output"
    grep -qE '^\| tp-pp \| 4 \| 0 \| paced \| .* \| [0-9.]+e-0[0-9] \(6\) \| equal ' <<<"$output"
    nothing_left
}

@test "unknown programs and stages of two and eight are one line" {
    real two "$PRISM_BUILD" --programs nonsense
    [ "$status" -eq 64 ]
    grep -q "^two: no 'nonsense'; there are ddp, tp, " <<<"$output"
    real eight "$PRISM_BUILD" --gpus 8 --stages nonsense
    [ "$status" -eq 64 ]
    grep -q "^eight: no 'nonsense'; there are ballast, " <<<"$output"
}
