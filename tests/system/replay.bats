#!/usr/bin/env bats
# The replay condensed (lib/graph/condense.h) and played: the same run. Worlds as small as these are condensed on demand only. Whether the looped iteration is
# condensed, too, hangs on the works that were measured.

load common

setup() { common_setup; }
teardown() { common_teardown; }

trainer=(--tp=2 --pp=2 --ep=2 --layers=4 --exact-sums --print-ranks=all --uneven-routing=2)

# emulate HOW ITERATIONS: to $output, HOW.json
emulate() {
    PRISM_LOG=debug PRISM_REPLAY=$1 LIMIT=300 run_prism run --emulate=16 --gpus-per-node=8 --sandbox=0,8,13 --assistants=0 --phase=emulate \
        --trace=trace --report="$1.json" -- "$moetrain" "${trainer[@]}" --iterations="$2"
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
}

numbers() { sed -nE 's/ seconds [0-9.]+//; /^rank [0-9]+ iteration/p' | sort; }

@test "condensed: the numbers of the replay that is played, beyond the recorded iterations too" {
    LIMIT=300 run_prism run --emulate=16 --gpus-per-node=8 --sandbox=0,8,13 --assistants=0 --trace=trace --iterations=3 \
        -- "$moetrain" "${trainer[@]}" --iterations=8
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    emulate plain 8
    absent 'replay was condensed' <(echo "$errors")
    numbers <<<"$output" >plain.numbers
    emulate condensed 8
    grep -q 'replay was condensed' <<<"$errors"
    numbers <<<"$output" | diff plain.numbers -
    [ "$(wc -l <plain.numbers)" -eq 24 ]
    python3 -c '
import json
plain, condensed = (json.load(open(f"{how}.json")) for how in ("plain", "condensed"))
for name in ("world", "sandbox", "transport", "numerics", "predicted_seconds", "exit_code"):
    assert plain[name] == condensed[name], name
for rank, seconds in condensed["iteration_seconds"].items():
    assert len(seconds) == len(plain["iteration_seconds"][rank]) == 8, rank'
    nothing_left
}
