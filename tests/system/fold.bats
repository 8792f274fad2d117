#!/usr/bin/env bats
# --layout, --fold: representatives run in capture, the trace is of all ranks.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# capture FOLDER ARGUMENTS… -- PROGRAM…
capture() {
    local folder=$1
    shift
    LIMIT=${LIMIT:-240} run_prism run --gpus-per-node=8 --trace="$folder" --phase=capture "$@"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
}

# Ranks that ran in the first trace printed in the second what they printed in the first: losses and norms, bit by bit.
same_outputs() {
    local log
    for log in "$1"/logs/capture.rank*; do
        grep -q loss_bits "$log"
        diff <(sed 's/seconds [0-9.]*//' "$log") <(sed 's/seconds [0-9.]*//' "$2/logs/${log##*/}")
    done
}

# folded_as_full WORLD LAYOUT LIVE PROGRAM…
folded_as_full() {
    local world=$1 layout=$2 live=$3
    shift 3
    capture folded --emulate="$world" --layout="$layout" --fold=dp -- "$@"
    [ "$(ls folded/logs | wc -l)" -eq "$live" ]
    capture full --emulate="$world" -- "$@"
    [ "$(ls full/logs | wc -l)" -eq "$world" ]
    same_outputs folded full
    "$PRISM_BUILD/test/fold_compare" folded/graph.bin full/graph.bin
}

@test "64 ranks with equal data: the folded capture is the full one, in structure, timeline and losses" {
    folded_as_full 64 tp:2,ep:2,dp:4,pp:4 16 \
        "$moetrain" --tp=2 --pp=4 --ep=2 --layers=4 --equal-data --variable-seq --iterations=3 --print-ranks=all
    nothing_left
}

@test "512 ranks with equal data: the folded capture is the full one" {
    folded_as_full 512 tp:2,ep:2,dp:32,pp:4 16 \
        "$moetrain" --tp=2 --pp=4 --ep=2 --layers=4 --micro-batches=1 --equal-data --iterations=2 --print-ranks=all
    nothing_left
}

@test "folded, calibrated and emulated: the losses of the plain program" {
    local options=(--tp=2 --pp=2 --ep=2 --equal-data --exact-sums --iterations=3 --print-ranks=all)
    LIMIT=240 run_prism run --emulate=32 --gpus-per-node=8 --sandbox=1 --assistants=0 --trace=trace --layout=tp:2,ep:2,dp:4,pp:2 --fold=dp \
        -- "$moetrain" "${options[@]}"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -q 'capturing 8 of 32 ranks (folded: dp)' <<<"$errors"
    timeout 120 "$launch" -g 8 32 -- "$moetrain" "${options[@]}" >plain
    bits() { sed -nE "s/^(rank 1 iteration .*) seconds.*(loss_bits.*)/\1 \2/p"; }
    [ "$(bits <plain | wc -l)" -eq 3 ]
    diff <(bits <plain) <(bits <<<"$output")
    python3 -c '
import json
r = json.load(open("trace/report.json"))
f = r["fold"]
assert f["layout"] == "tp:2,ep:2,dp:4,pp:2" and f["folded"] == "dp:4" and f["ranks_run"] == 8 and f["replicas_run"] == 1 and f["ranks_played"] == 16, f
assert f["absent_inputs"] == "the representative'"'"'s", f
assert r["calibration"]["ranks"] == 8, r'
    run_prism report trace
    grep -q 'folded' <<<"$output"
    run_prism verify trace
    [ "$status" -eq 0 ]
    run_prism predict trace --network="$PRISM_NETWORK"
    [ "$status" -eq 0 ]
    # The trace says how it was folded; another rank that ran may be the sandbox, one that did not may not.
    LIMIT=120 run_prism run --emulate=32 --gpus-per-node=8 --sandbox=18 --assistants=0 --trace=trace -- "$moetrain" "${options[@]}"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    diff <(sed -nE 's/^rank 18 (iteration .*) seconds.*(loss_bits.*)/\1 \2/p' plain) \
        <(sed -nE 's/^rank 18 (iteration .*) seconds.*(loss_bits.*)/\1 \2/p' <<<"$output")
    run_prism run --emulate=32 --gpus-per-node=8 --sandbox=7 --assistants=0 --trace=trace -- "$moetrain" "${options[@]}"
    refused 65 'rank 7 did not run in the folded capture of .*, rank 3 did'
    run_prism run --emulate=32 --gpus-per-node=8 --sandbox=1 --assistants=0 --trace=trace --layout=tp:2,ep:2,dp:4,pp:2 --fold=ep \
        -- "$moetrain" "${options[@]}"
    refused 65 'was captured with --prism-layout=tp:2,ep:2,dp:4,pp:2 --prism-fold=dp, not'
    nothing_left
}

@test "a sandbox rank of another replica: both replicas run, each with data of its own" {
    local options=(--tp=2 --pp=2 --exact-sums --iterations=2 --print-ranks=all)
    capture trace --emulate=16 --sandbox=2 --layout=tp:2,dp:4,pp:2 --fold=dp -- "$moetrain" "${options[@]}" --equal-data --use-split
    [ "$(ls trace/logs | sed 's/.*rank//' | sort -n | paste -sd,)" = 0,1,2,3,8,9,10,11 ]
    capture full --emulate=16 -- "$moetrain" "${options[@]}" --equal-data --use-split
    same_outputs trace full
    "$PRISM_BUILD/test/fold_compare" trace/graph.bin full/graph.bin
    nothing_left
}

@test "tensor and data groups of one size: waits for who may still come" {
    folded_as_full 16 tp:4,dp:4 4 "$moetrain" --tp=4 --equal-data --iterations=2 --print-ranks=all
    nothing_left
}

@test "a rank whose device is still being set up will come: the driver makes one context after another" {
    # Longer than a rank without processor time is waited for (folding.c).
    SOFTGPU_DEVICES=1 SOFTGPU_CONTEXT_SECONDS=7 capture trace --emulate=8 --layout=tp:2,dp:4 --fold=dp -- "$moetrain" --tp=2 --iterations=1
    [ "$(ls trace/logs | wc -l)" -eq 2 ]
    nothing_left
}

@test "refused: a split that does not say how large its groups are, a dimension that is split, Gloo, a store key of an absent rank" {
    LIMIT=60 run_prism run --emulate=16 --layout=tp:2,dp:4,pp:2 --fold=dp --trace=a --phase=capture -- "$moetrain" --tp=2 --pp=2 --use-split
    refused 69 'ncclCommSplit, which does not say whether .*dp:4.*--prism-sandbox=0,2'
    LIMIT=60 run_prism run --emulate=16 --layout=tp:2,dp:8 --fold=dp --trace=b --phase=capture -- "$moetrain" --tp=2 --ep=2
    refused 69 'makes a communicator of 2, .* dp:8 .*dp_shard:8,dp_rep:8'
    LIMIT=60 run_prism run --emulate=8 --layout=dp:8 --fold=dp --trace=c --phase=capture -- "$PRISM_BUILD/test/replica" gloo 1
    refused 69 'rank 0 makes a Gloo process group \("pg_of_all" in the store\)'
    LIMIT=60 run_prism run --emulate=8 --layout=dp:8 --fold=dp --trace=d --phase=capture -- "$PRISM_BUILD/test/replica" absent 1
    refused 69 'rank 0 waits in the c10d store for "ready/3"'
    nothing_left
}

@test "sends round a folded dimension and to all of it; a root that is folded away" {
    local mode tp
    for mode in ring exchange others; do
        for tp in 1 2; do
            capture "folded-$mode-$tp" --emulate=8 --layout="tp:$tp,dp:$((8 / tp))" --fold=dp -- "$PRISM_BUILD/test/replica" "$mode" "$tp"
            capture "full-$mode-$tp" --emulate=8 -- "$PRISM_BUILD/test/replica" "$mode" "$tp"
            "$PRISM_BUILD/test/fold_compare" "folded-$mode-$tp/graph.bin" "full-$mode-$tp/graph.bin"
            cmp "folded-$mode-$tp/logs/capture.rank0" "full-$mode-$tp/logs/capture.rank0"
            grep -q '^rank 0: ' "folded-$mode-$tp/logs/capture.rank0"
        done
    done
    # In the replay one absent replica is played for all, unless a message goes to some of them only.
    for mode in exchange:2 others:2 ring:8; do
        LIMIT=60 run_prism run --emulate=8 --gpus-per-node=8 --assistants=0 --trace="folded-${mode%:*}-1" -- "$PRISM_BUILD/test/replica" "${mode%:*}" 1
        [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
        diff <(echo "$output") "full-${mode%:*}-1/logs/capture.rank0"
        python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["fold"]["ranks_played"] == int(sys.argv[2])' \
            "folded-${mode%:*}-1/report.json" "${mode#*:}"
    done
    LIMIT=60 run_prism run --emulate=8 --layout=tp:2,dp:4 --fold=dp --trace=a --phase=capture -- "$PRISM_BUILD/test/replica" broadcast 2
    refused 69 'Broadcast from rank [67], which is folded away.*--prism-sandbox'
    capture b --emulate=8 --sandbox=0,6 --layout=tp:2,dp:4 --fold=dp -- "$PRISM_BUILD/test/replica" broadcast 2
    nothing_left
}

@test "a term that only the first replica adds: right where another replica runs, and the report shows that they differ" {
    LIMIT=120 run_prism run --emulate=8 --gpus-per-node=8 --sandbox=0 --assistants=0 --trace=one --layout=tp:2,dp:4 --fold=dp \
        -- "$PRISM_BUILD/test/replica" first 2
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    [ "$output" = 'rank 0: 4' ] # full: 1
    python3 -c 'import json; assert json.load(open("one/report.json"))["fold"]["live_replicas_compared"] is None'
    LIMIT=120 run_prism run --emulate=8 --gpus-per-node=8 --sandbox=2 --assistants=0 --trace=two --layout=tp:2,dp:4 --fold=dp \
        -- "$PRISM_BUILD/test/replica" first 2
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    [ "$output" = 'rank 2: 1' ]
    python3 -c '
import json
rows = json.load(open("two/report.json"))["fold"]["live_replicas_compared"]
assert [(r["op"], r["datatype"], r["compared"], r["differed"], r["difference"]) for r in rows] == [("AllReduce", "fp32", 2, 2, 2)], rows'
    nothing_left
}

@test "64 ranks with data of their own: how far folded is from full, and what a folded run says of it" {
    local options=(--tp=2 --pp=4 --ep=2 --layers=4 --uneven-routing=2 --exact-sums --iterations=3 --print-ranks=all)
    capture full --emulate=64 -- "$moetrain" "${options[@]}"
    LIMIT=240 run_prism run --emulate=64 --gpus-per-node=8 --sandbox=0,4 --assistants=0 --trace=folded --layout=tp:2,ep:2,dp:4,pp:4 --fold=dp \
        -- "$moetrain" "${options[@]}"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    [ "$(ls folded/logs/capture.rank* | wc -l)" -eq 32 ]
    python3 - "$("$PRISM_BUILD/test/fold_compare" --counts folded/graph.bin full/graph.bin)" <<'P'
import json, re, sys
def numbers(path):
    return [(float(a), float(b)) for a, b in re.findall(r"loss (\S+) grad_norm (\S+)", open(path).read())]
folded, full = numbers("folded/logs/capture.rank0"), numbers("full/logs/capture.rank0")
loss, norm = (max(abs(a[i] - b[i]) / b[i] for a, b in zip(folded, full)) for i in (0, 1))
print("loss", loss, "norm", norm, "amounts sent, per cent", sys.argv[1])
# What is approximated is other, and not far: everything is seeded, so these are the same in every run.
assert 0 < loss < 0.05 and 0 < norm < 0.5 and 0 < float(sys.argv[1]) < 30
rows = {(r["op"], r["datatype"]): r for r in json.load(open("folded/report.json"))["fold"]["live_replicas_compared"]}
gradients = rows["AllReduce", "fp32"]
assert gradients["differed"] == gradients["compared"] > 0 and gradients["difference"] > 0.1, rows
P
    nothing_left
}

@test "barriers of the whole world in the store count those that are folded away" {
    run_prism run --emulate=8 --layout=tp:2,dp:4 --fold=dp --trace=trace --phase=auto --sandbox=1 --assistants=0 -- "$PRISM_BUILD/test/replica" barrier 2
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    nothing_left
}

@test "a rank that leaves in a folded capture: absent ranks stand where their representatives do; ended early after two iterations" {
    local options=(--tp=2 --pp=2 --equal-data --iterations=6)
    LIMIT=120 run_prism run --emulate=16 --gpus-per-node=8 --layout=tp:2,dp:4,pp:2 --fold=dp --trace=left --phase=capture \
        -- "$moetrain" "${options[@]}" --exit-rank=9 --exit-at=2 --exit-code=0
    refused 67 'rank 9 has ended, but rank [18] waits for it'
    # Both of them, if both had got there when the first was seen to wait for ever.
    grep -qE 'missing: (ranks 3,10 wait|rank (3|10) waits) for rank 11' <<<"$errors" || { echo "$errors"; return 1; }
    capture short --emulate=16 --layout=tp:2,dp:4,pp:2 --fold=dp --iterations=2 -- "$moetrain" "${options[@]}" --iterations=200
    grep -q '"iterations": *2' short/trace.json
    nothing_left
}

@test "PMIx in a folded capture is refused" {
    [ -x "$PRISM_BUILD/test/pmix_client" ] || skip "pmix_client is not built"
    LIMIT=60 run_prism run --emulate=8 --layout=dp:8 --fold=dp --trace=trace --phase=capture -- "$PRISM_BUILD/test/pmix_client" all
    refused 69 'rank 0 calls PMIx .* for the namespace of 8 ranks'
    nothing_left
}
