#!/usr/bin/env bash
# moetrain.sh BIN LIB OUT: moetrain's CUDA kernels on a real GPU, plainly and under Prism.
#
#   BIN has prismd, moetrain (software GPUs) and moetrain-cuda; LIB has libprism.so and softgpu/; results go to OUT.
# 1. losses of one rank, CUDA against software GPU
# 2. four ranks of real NCCL on one GPU (distinct NCCL_HOSTID), with --exact-sums
# 3. the same under Prism: capture of four ranks on one GPU, calibration, paced emulation of rank 0
set -u
bin=$(readlink -f "$1") lib=$(readlink -f "$2") out=$(readlink -f "$3")
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
work=$(mktemp -d) && cd "$work" || exit 71
launch=$here/../../contrib/moetrain/launch.sh
# MOETRAIN: another program in place of moetrain-cuda (rehearsals).
cuda=${MOETRAIN:-$bin/moetrain-cuda}
soft=$lib/softgpu:${LD_LIBRARY_PATH:-}
mixed="--tp=2 --pp=2 --iterations=6 --exact-sums --micro-batches=4 --hidden=64 --ffn=256 --seq=64"
fields() { grep "^rank 0 iteration" "$1" | sed -E 's/ seconds.*//'; }

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/gpu.txt"
echo "== 1. one rank: CUDA, then software GPU"
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29411 timeout 60 "$cuda" --iterations=6 >one-cuda.txt 2>&1
echo "rc=$?"; fields one-cuda.txt
LD_LIBRARY_PATH=$soft RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29412 SOFTGPU_DIR=$work/sg timeout 60 "$bin/moetrain" --iterations=6 >one-soft.txt 2>&1
echo "rc=$?"; fields one-soft.txt

echo "== 2. four ranks, real NCCL, one GPU"
cat >rank.sh <<'E'
#!/bin/bash
export NCCL_HOSTID=host$RANK NCCL_SOCKET_IFNAME=lo
exec "$@"
E
chmod +x rank.sh
CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} timeout 120 "$launch" 4 -- ./rank.sh "$cuda" $mixed >four-nccl.txt 2>&1
echo "rc=$?"; grep "^rank 0" four-nccl.txt || tail -5 four-nccl.txt

echo "== 3. the same under Prism"
cat >network.json <<'E'
{"format": "prism-network", "version": 1, "links": {
 "intra_node": {"launch_seconds": 1e-5, "step_seconds": 2e-6, "bandwidth_bytes_per_second": 3e11, "eager_bytes": 65536, "measured": false},
 "inter_node": {"launch_seconds": 1e-5, "step_seconds": 8e-6, "bandwidth_bytes_per_second": 4e10, "eager_bytes": 65536, "measured": false}},
 "algorithms": {"tree_allreduce": true, "tree_rooted": true, "lockstep": false}, "fit_error": 0.0, "points": []}
E
for run in first second; do
    PRISM_EMULATE=4 PRISM_SANDBOX=0 PRISM_ASSISTANTS=0 PRISM_NETWORK=$work/network.json PRISM_TRACE=$work/trace PRISM_LIBRARY=$lib/libprism.so \
        timeout 150 "$bin/prismd" "$cuda" $mixed >prism-$run.txt 2>&1
    echo "$run rc=$?"; grep -v "^rank 0 peak" prism-$run.txt | tail -12
    cp trace/report.json "$out/report-$run.json" 2>/dev/null
done
echo "== bits equal to real NCCL's:"
for run in first second; do
    diff <(grep -o "loss_bits.*" four-nccl.txt) <(grep -o "loss_bits.*" prism-$run.txt) >/dev/null && echo "$run: yes" || echo "$run: no"
done
cp ./*.txt "$out/" 2>/dev/null
tar czf "$out/logs.tgz" trace/logs 2>/dev/null
rm -rf "$work"
