#!/usr/bin/env bats
# PMIx of the emulated job: a plain client (pmix_client) in capture, from the trace, at 8,192 ranks; faults; Open MPI.

load common

client=$PRISM_BUILD/test/pmix_client

setup() {
    [ -x "$client" ] && [ -x "$PRISM_BUILD/bin/prism-pmix" ] || skip "built without libpmix-dev"
    common_setup
}
teardown() { common_teardown; }

# Eight ranks on two logical nodes of four; arguments are the client's.   capture [prism options] -- ...
capture() {
    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=1,6 --trace=trace --phase=capture "$@"
}
# "rank R …" lines of a rank in capture, without the times.
said() { sed 's/, PMIx_Init.*//' "trace/logs/capture.rank$1"; }

@test "capture: who each rank is, puts, fences, gets on both nodes; emulation: the same with absent ranks" {
    local args=(--nccl --get 3 --get 7) rank
    capture -- "$client" "${args[@]}"
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    for rank in 0 1 2 3 4 5 6 7; do
        local node=$((rank / 4)) peers=0,1,2,3
        [ $node -eq 0 ] || peers=4,5,6,7
        diff <(said $rank) - <<EOF
rank $rank of 8 universe 8 nodes 2 node $node local rank $((rank % 4)) of 4 on $(said $rank | sed -n 's/.* on \([^ ]*\) peers.*/\1/p') peers $peers
rank $rank got of rank 3: one-of-00003 two-of-00003 on $(said 3 | sed -n 's/.* on \([^ ]*\) peers.*/\1/p') local rank 3
rank $rank got of rank 7: one-of-00007 two-of-00007 on $(said 7 | sed -n 's/.* on \([^ ]*\) peers.*/\1/p') local rank 3
rank $rank done
EOF
    done
    nothing_left

    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=1,6 --trace=trace -- "$client" "${args[@]}"
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    diff <(sed 's/, PMIx_Init.*//' <<<"$output" | sort) <({ said 1; said 6; } | sort)
    nothing_left
}

@test "fences that collect nothing: values come by direct modex" {
    capture -- "$client" --no-collect --nccl --get 2 --get 5
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    grep -q 'rank 1 got of rank 5: one-of-00005 two-of-00005' trace/logs/capture.rank1
    grep -q 'rank 6 got of rank 2: one-of-00002 two-of-00002' trace/logs/capture.rank6
    [ -s trace/pmix.log ]
}

@test "8,192 ranks: three run, the rest is answered from the trace" {
    local args=(--get 1 --get 8 --get 4711 --get 8191) rank
    capture -- "$client" --nccl
    [ "$status" -eq 0 ]
    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=1,6 --trace=trace --phase=calibrate -- "$client" --nccl
    [ "$status" -eq 0 ]
    "$PRISM_BUILD/test/pmix_multiply" trace large 8192 -- "$client" "${args[@]}"
    run_prism run --emulate=8192 --gpus-per-node=8 --sandbox=0,9,4096 --trace=large --phase=emulate -- "$client" "${args[@]}"
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    for rank in 0 9 4096; do
        grep -qE "^rank $rank of 8192 universe 8192 nodes 1024 node $((rank / 8)) local rank $((rank % 8)) of 8 " <<<"$output"
        grep -q "^rank $rank got of rank 8: one-of-00008 two-of-00008 .* local rank 0$" <<<"$output"
        grep -q "^rank $rank got of rank 4711: one-of-04711 two-of-04711 .* local rank 7$" <<<"$output"
        grep -q "^rank $rank got of rank 8191: one-of-08191 two-of-08191 .* local rank 7$" <<<"$output"
        grep -q "^rank $rank done" <<<"$output"
    done
    nothing_left
}

@test "ranks that abort, are killed, or leave without PMIx_Finalize: the others are told, exit codes are right" {
    local rank
    capture -- "$client" --nccl --fault abort 5
    refused 9 'rank 5 called PMIx_Abort \(MPI_Abort\) with status 9 in capture: a fault was asked for'
    [ "$(cat trace/logs/capture.rank? | grep -c 'event PROC-ABORTED of rank 5')" -eq 7 ]
    capture -- "$client" --nccl --fault kill 2
    refused 137 'rank 2 was ended by signal 9'
    [ "$(cat trace/logs/capture.rank? | grep -c 'event PROC-ABORTED of rank 2')" -eq 7 ]
    capture -- "$client" --nccl --fault exit 2
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    [ "$(cat trace/logs/capture.rank? | grep -c 'event PROC TERMINATED WITHOUT SYNC of rank 2')" -eq 7 ]
    nothing_left
}

# A capture whose ranks all wait for an event that does not come. Sets $started.
start_waiting() {
    rm -rf waiting
    start_foreground "$prism" run --emulate=8 --gpus-per-node=4 --trace=waiting --phase=capture -- "$client" --nccl --fault none 99
    local i
    for i in $(seq 600); do
        [ "$(cat waiting/logs/capture.rank* 2>/dev/null | grep -c ' of 8 universe ')" -lt 8 ] || return 0
        sleep 0.1
    done
    cat .stderr
    return 1
}
process() { our_processes | sed -n "s|^\([0-9]*\) [^ ]*$1 .*|\1|p" | head -n 1; }

@test "a PMIx server or prismd itself is killed: the run ends and leaves nothing" {
    start_waiting
    kill -KILL "$(process prism-pmix)"
    await_started 60
    [ "$code" -eq 68 ]
    grep -qE 'the PMIx server of logical node [01] ended \(signal 9\)' .stderr
    nothing_left
    start_waiting
    kill -KILL "$(process prismd)"
    await_started 60
    [ "$code" -ne 0 ]
    nothing_left
}

@test "another PMIx server's variables do not reach the ranks; PRISM_PMIX=0" {
    export PMIX_NAMESPACE=slurm.pmix.1.0 PMIX_RANK=3 PMIX_SERVER_URI41='slurm.1;tcp4://127.0.0.1:9' PMIX_GDS_MODULE=ds21 PMI_RANK=3
    capture -- "$client" --nccl --get 7
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    capture -- sh -c 'env | grep -E "^(PMIX?_|JSM)" >&2; exec "$0" --nccl' "$client"
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    absent 'slurm\.|ds21|PMI_RANK' trace/logs/capture.rank1
    grep -q '^PMIX_RANK=1$' trace/logs/capture.rank1
    PRISM_PMIX=0 capture -- sh -c 'env | grep -E "^(PMIX?_|JSM|PRISM_PMIX)"; exec "$0" --nccl' "$client"
    [ "$status" -eq 3 ] # PMIx_Init is refused
    absent '^(PMI|JSM|PRISM_PMIX)[A-Z0-9_]*=' trace/logs/capture.rank1
}

@test "a build without PMIx says so when a rank asks" {
    mkdir bin
    cp "$PRISM_BUILD/bin/prism" "$PRISM_BUILD/bin/prismd" bin
    ln -s "$PRISM_BUILD/lib" lib
    run "$PWD/bin/prism" doctor
    grep -q 'PMIx.*built without PMIx' <<<"$output"
    run "$PRISM_BUILD/bin/prism" doctor
    grep -qE 'PMIx.*prism-pmix with libpmix [0-9]+\.[0-9]+' <<<"$output"
    prism=$PWD/bin/prism capture -- "$client" --nccl
    refused 69 'uses PMIx, and .*prism-pmix is missing: .*install libpmix-dev'
}

@test "a damaged pmix.log; one of another libpmix" {
    capture -- "$client" --nccl
    [ "$status" -eq 0 ]
    cp trace/pmix.log whole
    printf x | dd of=trace/pmix.log bs=1 seek=60 conv=notrunc status=none
    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=1,6 --trace=trace -- "$client" --nccl
    refused 65 'trace/pmix.log has the checksum .* and had '
    # A trace of an earlier version has no checksum of the whole file: its reader finds it.
    earlier_manifest trace 2
    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=1,6 --trace=trace -- "$client" --nccl
    refused 65 'PMIx log: its checksum is wrong'
    run_prism verify trace
    refused 65 'trace/pmix.log: PMIx log: its checksum is wrong'
    python3 -c '
import ctypes
xxh = ctypes.CDLL("libxxhash.so.0").XXH64
xxh.restype, xxh.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
body = bytearray(open("whole", "rb").read()[:-8])
body[16:20] = b"1.7\0"
open("trace/pmix.log", "wb").write(body + xxh(bytes(body), len(body), 0).to_bytes(8, "little"))'
    run_prism run --emulate=8 --gpus-per-node=4 --sandbox=1,6 --trace=trace -- "$client" --nccl
    refused 65 'captured with PMIx 1.7 and this node has'
}

# --- Open MPI ---

mpi_program() {
    command -v mpicc >/dev/null || skip "Open MPI is not installed"
    mpicc -o mpi_sum "$PRISM_SOURCE/tests/system/mpi_sum.c" -ldl
    # A machine may have no other network than the loopback; processes that poll share few processors.
    export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
}

@test "Open MPI: unchanged program captured at 16 ranks on 4 logical nodes; emulation with absent ranks is refused" {
    mpi_program
    run_prism run --emulate=16 --gpus-per-node=4 --sandbox=0 --trace=trace --phase=capture -- ./mpi_sum --nccl
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    for rank in $(seq 0 15); do
        grep -qx "rank $rank of 16 sum 136 local $((rank % 4)) of 4" "trace/logs/capture.rank$rank"
    done
    run_prism run --emulate=16 --gpus-per-node=4 --sandbox=0 --trace=trace -- ./mpi_sum --nccl
    refused 69 'communicates by MPI, and [0-9]+ of its 16 ranks would not run'
    nothing_left
}

@test "Open MPI: prism run in a batch script" {
    mpi_program
    export SLURM_JOBID=1 SLURM_JOB_ID=1 SLURM_NODELIST=nowhere
    run_prism run --emulate=4 --gpus-per-node=2 --trace=trace --phase=capture -- ./mpi_sum --nccl
    [ "$status" -eq 0 ] || { echo "$errors"; false; }
    grep -qx "rank 3 of 4 sum 10 local 1 of 2" trace/logs/capture.rank3
}

@test "Open MPI: MPI_Abort ends the run with its code" {
    mpi_program
    run_prism run --emulate=4 --gpus-per-node=2 --trace=trace --phase=capture -- ./mpi_sum --abort 2
    refused 7 'rank 2 called PMIx_Abort \(MPI_Abort\) with status 7'
    nothing_left
}
