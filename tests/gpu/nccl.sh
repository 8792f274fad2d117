#!/usr/bin/env bash
# nccl.sh BIN LIB OUT: transport nccl on real GPUs and real NCCL, moetrain's CUDA kernels.
#
#   BIN has prismd, prism-assistant and moetrain-cuda; LIB has libprism.so; results go to OUT. With one GPU the sandbox rank and
#   the assistant share it: real NCCL allows that between different NCCL_HOSTIDs.
set -u
bin=$(readlink -f "$1") lib=$(readlink -f "$2") out=$(readlink -f "$3")
work=$(mktemp -d) && cd "$work" || exit 71
options="--tp=2 --pp=2 --ep=2 --iterations=6 --exact-sums --micro-batches=4 --hidden=64 --ffn=256 --seq=64"
cat >network.json <<'E'
{"format": "prism-network", "version": 1, "links": {
 "intra_node": {"launch_seconds": 1e-5, "step_seconds": 2e-6, "bandwidth_bytes_per_second": 3e11, "eager_bytes": 65536, "measured": false},
 "inter_node": {"launch_seconds": 1e-5, "step_seconds": 8e-6, "bandwidth_bytes_per_second": 4e10, "eager_bytes": 65536, "measured": false}},
 "algorithms": {"tree_allreduce": true, "tree_rooted": true, "lockstep": false}, "fit_error": 0.0, "points": []}
E
cat >rank.sh <<'E'
#!/bin/bash
export NCCL_HOSTID=host$RANK NCCL_SOCKET_IFNAME=lo
exec "$@"
E
chmod +x rank.sh
# Those that the caller made visible, else all.
visible=${CUDA_VISIBLE_DEVICES:-$(nvidia-smi -L 2>/dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -sd, -)}
gpus=$(tr , '\n' <<<"${visible:-0}" | wc -l)
program=("${MOETRAIN:-$bin/moetrain-cuda}")
if [ "$gpus" -eq 1 ]; then
    export CUDA_VISIBLE_DEVICES=${visible:-0},${visible:-0} NCCL_HOSTID=assistant NCCL_SOCKET_IFNAME=lo
    program=("$work/rank.sh" "${MOETRAIN:-$bin/moetrain-cuda}")
fi
echo "== $gpus GPUs"
for assistants in 0 1 1; do
    PRISM_EMULATE=8 PRISM_SANDBOX=0 PRISM_ASSISTANTS=$assistants PRISM_NETWORK=$work/network.json PRISM_TRACE=$work/trace \
        PRISM_LIBRARY=$lib/libprism.so timeout 150 "$bin/prismd" "${program[@]}" $options >"run-$assistants.txt" 2>&1
    echo "assistants=$assistants rc=$?"
    grep -v '^rank 0 peak' "run-$assistants.txt" | tail -12
    cp trace/report.json "$out/report-nccl-$assistants.json" 2>/dev/null
    grep -A5 '"pacing_us"' trace/report.json
done
diff <(grep -o 'loss_bits.*' run-0.txt) <(grep -o 'loss_bits.*' run-1.txt) >/dev/null && [ -s run-1.txt ] &&
    echo "numbers of paced and nccl: equal" || echo "numbers of paced and nccl: DIFFERENT"
cp ./*.txt "$out/"
tar czf "$out/nccl-logs.tgz" trace/logs 2>/dev/null
rm -rf "$work"
