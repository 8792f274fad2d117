#!/usr/bin/env bats
# A node's devices for programs that take cudaSetDevice(LOCAL_RANK), on one device.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# looper uses cudaSetDevice(LOCAL_RANK), without a modulus.
@test "eight ranks of a node on one device: capture, calibrate, emulate" {
    export CUDA_VISIBLE_DEVICES=2
    run_prism run --emulate=16 --gpus-per-node=8 --sandbox=15 --assistants=0 --trace=trace -- "$looper" fault 4
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -q '^rank 15 iteration 3 sum 168$' <<<"$output"
    grep -q '"calibrated": *true' <<<"$("$prism" info trace --json)"
    nothing_left
}

@test "the program's variables are those of the emulated node" {
    cat >show <<'S'
#!/bin/bash
echo "rank $RANK sees $CUDA_VISIBLE_DEVICES of $SLURM_GPUS_ON_NODE, job $SLURM_JOB_GPUS"
exec "$@"
S
    chmod +x show
    export CUDA_VISIBLE_DEVICES=2 SLURM_JOB_GPUS=2 SLURM_GPUS_ON_NODE=1
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace --phase=capture -- ./show "$looper" fault 2
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -qx 'rank 3 sees 0,1,2,3 of 4, job 0,1,2,3' trace/logs/capture.rank3*
    nothing_left
}

@test "one task a device: wrappers and --gpus-per-task narrow the view" {
    cat >narrow <<'S'
#!/bin/bash
export CUDA_VISIBLE_DEVICES=$LOCAL_RANK LOCAL_RANK=0
exec "$@"
S
    chmod +x narrow
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace --phase=capture -- ./narrow "$looper" fault 2
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    grep -q 'rank 3 done' trace/logs/capture.rank3*
    # Its LOCAL_RANK is 3, and it sees one device.
    export SLURM_GPUS_PER_TASK=1 CUDA_VISIBLE_DEVICES=0
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0 --assistants=0 --trace=trace2 --phase=capture -- "$looper" fault 2
    [ "$status" -ne 0 ]
    grep -q 'invalid device ordinal' <<<"$errors"
    nothing_left
}
