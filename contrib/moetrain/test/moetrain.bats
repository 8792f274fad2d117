#!/usr/bin/env bats
# Whole runs on software GPUs. $PRISM_BUILD (or $B) is the build folder, build/release by default.

setup() {
    cd "$BATS_TEST_DIRNAME/../../.."
    build=${PRISM_BUILD:-${B:-build/release}}
    build=$(cd "$build" && pwd)
    export LD_LIBRARY_PATH=$build/lib/softgpu SOFTGPU_DIR=$BATS_TEST_TMPDIR
    moetrain=$build/bin/moetrain
}

# ranks N OPTIONS...: run and keep stdout of the ranks
ranks() {
    local world=$1
    shift
    timeout 120 contrib/moetrain/launch.sh "$world" -- "$moetrain" --store-timeout=60 "$@"
}

# column NAME: that value of every iteration of rank 0, from stdin
column() {
    awk -v name="$1" '$1 == "rank" && $2 == 0 && $3 == "iteration" {
        for (i = 1; i < NF; i++) if ($i == name) print $(i + 1) }'
}

# close TOLERANCE A B: the same number of values, each within the relative tolerance
close() {
    paste <(column loss <<<"$2") <(column loss <<<"$3") | awk -v tolerance="$1" '
        NF != 2 || ($1 - $2) ^ 2 > (tolerance * $1) ^ 2 { print "differs:", $0; bad = 1 }
        END { exit bad || NR == 0 }'
    paste <(column grad_norm <<<"$2") <(column grad_norm <<<"$3") | awk -v tolerance="$1" '
        NF != 2 || ($1 - $2) ^ 2 > (10 * tolerance * $1) ^ 2 { print "differs:", $0; bad = 1 }
        END { exit bad || NR == 0 }'
}

model=(--layers=4 --iterations=4 --seed=7)

@test "moetrain: the loss goes down" {
    run ranks 1 --iterations=40
    [ "$status" -eq 0 ]
    column loss <<<"$output" | awk 'NR == 1 { first = $1 } END { exit !($1 < 0.85 * first) }'
    [[ ${lines[-1]} =~ ^rank\ 0\ peak_memory_bytes\ [0-9]+$ ]]
}

@test "moetrain: tensor, pipeline, data and expert parallel runs agree with one rank" {
    one=$(ranks 1 "${model[@]}" --micro-batches=4)
    close 1e-4 "$one" "$(ranks 2 "${model[@]}" --micro-batches=4 --tp=2)"
    close 1e-4 "$one" "$(ranks 2 "${model[@]}" --micro-batches=4 --pp=2)"
    close 1e-4 "$one" "$(ranks 2 "${model[@]}" --micro-batches=2)"
    close 1e-4 "$one" "$(ranks 2 "${model[@]}" --micro-batches=2 --ep=2)"
}

@test "moetrain: all kinds together agree with one rank, by unique ids and by split" {
    one=$(ranks 1 "${model[@]}" --micro-batches=8 --variable-seq --uneven-routing=1)
    mixed=$(ranks 16 "${model[@]}" --micro-batches=2 --variable-seq --uneven-routing=1 --tp=2 --pp=2 --ep=2)
    close 1e-4 "$one" "$mixed"
    split=$(ranks 16 "${model[@]}" --micro-batches=2 --variable-seq --uneven-routing=1 --tp=2 --pp=2 --ep=2 --use-split)
    [ "$(column loss_bits <<<"$mixed")" = "$(column loss_bits <<<"$split")" ]
}

@test "moetrain: four pipeline stages, one hardware queue" {
    one=$(ranks 1 "${model[@]}" --micro-batches=6)
    close 1e-4 "$one" "$(CUDA_DEVICE_MAX_CONNECTIONS=1 ranks 4 "${model[@]}" --micro-batches=6 --pp=4)"
}

@test "moetrain: exact sums give the same bits in every run, on every rank" {
    shape=(8 "${model[@]}" --tp=2 --pp=2 --ep=2 --exact-sums --print-ranks=all)
    first=$(ranks "${shape[@]}")
    second=$(ranks "${shape[@]}")
    [ "$(column loss_bits <<<"$first")" = "$(column loss_bits <<<"$second")" ]
    [ "$(column grad_bits <<<"$first")" = "$(column grad_bits <<<"$second")" ]
    [ "$(grep -c ' iteration 3 ' <<<"$first")" -eq 8 ]
    [ "$(grep ' iteration 3 ' <<<"$first" | grep -o 'loss_bits.*' | sort -u | wc -l)" -eq 1 ]
}

@test "moetrain: streams that wait at once" {
    for streams in 2 31; do
        run ranks 2 --iterations=2 --wait-streams=$streams
        [ "$status" -eq 0 ]
    done
}

@test "moetrain: a rank that crashes or leaves ends the run" {
    run ranks 1 --crash-rank=0 --crash-at=1
    [ "$status" -eq 134 ]
    [[ $output == *"--crash-at 1"* ]]
    run ranks 1 --exit-rank=0 --exit-at=1 --exit-code=9
    [ "$status" -eq 9 ]
    # The others see it too; which one the launcher sees first is not said.
    for how in --crash-rank --exit-rank; do
        run ranks 2 "$how=1" --crash-at=1 --exit-at=1
        [ "$status" -ne 0 ]
        [ "$status" -ne 124 ]
    done
}

@test "moetrain: a rank whose neighbour is gone says so and exits 1" {
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((10000 + RANDOM % 20000))
    RANK=1 LOCAL_RANK=1 "$moetrain" --crash-rank=1 --crash-at=1 2>/dev/null &
    RANK=0 LOCAL_RANK=0 run timeout 60 "$moetrain" --iterations=100
    wait || true
    [ "$status" -eq 1 ]
    # Told by ncclCommGetAsyncError or by the next call, whichever comes first; both name who is gone.
    [[ $output == *"moetrain: rank 0: "*"NCCL error 6 "*"rank 1 of communicator (2 ranks) ended without leaving it"* ]]
}

@test "moetrain: an agent serves the store" {
    coproc agent { exec "$build/test/c10d_server"; }
    read -r _ MASTER_PORT <&"${agent[0]}"
    export MASTER_PORT TORCHELASTIC_USE_AGENT_STORE=True
    run ranks 2 --tp=2 --iterations=1
    exec {agent[1]}>&-
    [ "$status" -eq 0 ]
    [ "$(column loss <<<"$output" | wc -l)" -eq 1 ]
}

@test "moetrain: bad options and variables are named" {
    run "$moetrain" --layers=none
    [ "$status" -eq 2 ]
    [[ $output == *"moetrain: --layers"* ]]
    run ranks 3 --tp=2
    [ "$status" -eq 2 ]
    [[ $output == *"--tp times --pp"* ]]
    RANK=5 WORLD_SIZE=4 run "$moetrain"
    [ "$status" -eq 1 ]
    [[ $output == *"RANK is '5'"* ]]
    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 run "$moetrain"
    [ "$status" -eq 1 ]
    [[ $output == *MASTER_PORT* ]]
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 run timeout 20 "$moetrain" --store-timeout=1
    [ "$status" -eq 1 ]
    [[ $output == *"no store at 127.0.0.1"* ]]
}
