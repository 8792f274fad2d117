# PMIx of the emulated job under Slurm: fences between machines, Slurm's own PMIx in force or not, Open MPI at 64 ranks.

load helper

lacks_pmix() { lacks_program bin/prism-pmix test/pmix_client; }

setup_file() {
    [ -z "$(lacks_pmix)" ] || return 0
    work_folder
    export client=$PRISM_BUILD/test/pmix_client
    # A machine may have no other network than the loopback; processes that poll share few processors.
    export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
    ! command -v mpicc >/dev/null || mpicc -o mpi_sum "$PRISM_SOURCE/tests/system/mpi_sum.c" -ldl
    real_cluster --nodes 4 --gpus 8
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_pmix | head -n 1)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    ls -A /dev/shm | sort >shm-before
}

# captured TRACE srun arguments...: by four machines of two devices; standard error in ./err
captured() {
    local trace=$1 code=0
    shift
    PRISM_NODES=4 PRISM_DEVICES_PER_NODE=2 timeout 300 srun --gpus-per-node=8 --prism-trace="$WORK/$trace" \
        --prism-assistants=0 "$@" >out 2>err 3>&- </dev/null || code=$?
    [ $code -eq 0 ] || { echo "exit code $code:"; cat err; return 1; }
}

# Those of this cluster's steps; a zombie's environment is empty.
processes() { grep -lsaF "ONEBOX_DIR=$CLUSTER" /proc/[0-9]*/environ | xargs -r grep -lsaE '(PRISM|SLURM)_STEP_ID='; }
gone() { [ -z "$(processes)" ] && [ -z "$(ls -A /dev/shm | sort | comm -13 shm-before -)" ]; }
nothing_left() { await gone || { processes; ls -A /dev/shm; return 1; }; }

# world_is_right TRACE: what the 16 ranks of the client said, four logical nodes of four
world_is_right() {
    local rank log
    for rank in $(seq 0 15); do
        log=$1/logs/capture.rank$rank
        grep -qE "^rank $rank of 16 universe 16 nodes 4 node $((rank / 4)) local rank $((rank % 4)) of 4 " "$log" &&
            grep -qE "^rank $rank got of rank 0: one-of-00000 two-of-00000 .* local rank 0$" "$log" &&
            grep -qE "^rank $rank got of rank 13: one-of-00013 two-of-00013 .* local rank 1$" "$log" || { cat "$log"; return 1; }
    done
}

@test "four machines exchange what ranks put, with Slurm's PMIx in force and without" {
    local mpi
    timeout 120 srun --mpi=pmix -n 1 env 3>&- | grep -q '^PMIX_NAMESPACE=slurm' # Slurm has it
    for mpi in none pmix; do
        captured "plain-$mpi" --mpi=$mpi -n 16 --prism-emulate=16 --prism-gpus-per-node=4 --prism-sandbox=0,13 --prism-phase=capture \
            "$client" --nccl --get 0 --get 13
        grep -q 'capturing 16 ranks on 4 nodes' err
        world_is_right "plain-$mpi"
    done
    nothing_left
}

@test "later phases on two machines: ranks of one logical node are on both, the others come from the trace" {
    PRISM_NODES=2 PRISM_DEVICES_PER_NODE=2 timeout 300 srun --mpi=pmix -n 16 --gpus-per-node=8 --prism-emulate=16 --prism-gpus-per-node=4 \
        --prism-sandbox=4,5 --prism-assistants=0 --prism-trace="$WORK/split" "$client" --nccl --no-collect --get 5 --get 4 --get 13 >out 2>err 3>&- </dev/null || {
        cat err
        false
    }
    for rank in 4 5; do
        grep -qE "^rank $rank of 16 .* node 1 local rank $((rank % 4)) of 4 " out
        grep -qE "^rank $rank got of rank 4: one-of-00004 two-of-00004" out
        grep -qE "^rank $rank got of rank 5: one-of-00005 two-of-00005" out
        grep -qE "^rank $rank got of rank 13: one-of-00013 two-of-00013" out
    done
    nothing_left
}

@test "a rank that another machine's rank waits for is lost: the others are told" {
    captured lost -n 16 --prism-emulate=16 --prism-gpus-per-node=4 --prism-phase=capture "$client" --nccl --fault exit 9
    [ "$(cat lost/logs/capture.rank* | grep -c 'event PROC TERMINATED WITHOUT SYNC of rank 9')" -eq 15 ]
    nothing_left
}

@test "Open MPI at 64 ranks on four machines: MPI_Init to MPI_Finalize, MPI_Allreduce is right" {
    [ -x mpi_sum ] || skip "Open MPI is not installed"
    local rank
    captured mpi --mpi=pmix -n 64 --prism-emulate=64 --prism-phase=capture ./mpi_sum --nccl
    grep -q 'capturing 64 ranks on 4 nodes' err
    for rank in $(seq 0 63); do
        grep -qx "rank $rank of 64 sum 2080 local $((rank % 8)) of 8" "mpi/logs/capture.rank$rank" || { cat "mpi/logs/capture.rank$rank"; false; }
    done
    nothing_left
}

# A program that never calls NCCL is a step like any other (prismd/ranks/tasks.h): its output and its exit code are its own.
step() { # EXPECTED_CODE mpi_sum arguments...
    local expected=$1 code=0
    shift
    PRISM_NODES=2 PRISM_DEVICES_PER_NODE=2 timeout 300 srun -n 8 --gpus-per-node=8 --prism-emulate=8 --prism-gpus-per-node=4 \
        --prism-trace="$WORK/step" ./mpi_sum "$@" >out 2>err 3>&- </dev/null || code=$?
    [ "$code" -eq "$expected" ] || { echo "exit code $code:"; cat err; return 1; }
}

@test "Open MPI without NCCL: output and exit code are the program's own, no trace is left; MPI_Abort; a rank killed" {
    [ -x mpi_sum ] || skip "Open MPI is not installed"
    local rank
    step 5 --exit 5
    for rank in 0 1 2 3 4 5 6 7; do
        grep -qx "rank $rank of 8 sum 36 local $((rank % 4)) of 4" out || { cat out err; false; }
    done
    [ ! -e step/trace.json ]
    step 7 --abort 6
    grep -q 'rank 6 called PMIx_Abort (MPI_Abort) with status 7' err
    step 137 --kill 3
    grep -q 'rank 3 ended with signal 9 in capture, before PMIx_Finalize' err
    # As after every end by force, Open MPI's own shared memory stays.
    for segment in $(ls -A /dev/shm | sort | comm -13 shm-before - | grep '^vader_segment\.'); do rm -f "/dev/shm/$segment"; done
    nothing_left
}

@test "Open MPI in a request with one task a node: as many ranks as GPUs, all are started" {
    [ -x mpi_sum ] || skip "Open MPI is not installed"
    PRISM_NODES=2 PRISM_DEVICES_PER_NODE=2 timeout 300 srun -N2 --ntasks-per-node=1 --gpus-per-node=4 --prism-emulate \
        --prism-trace="$WORK/launcher" ./mpi_sum >out 2>err 3>&- </dev/null || { cat err; false; }
    grep -qx 'rank 7 of 8 sum 36 local 3 of 4' out
    [ "$(grep -c ' of 8 sum 36 ' out)" -eq 8 ]
    nothing_left
}
