#!/usr/bin/env bash
# slurm.sh BIN LIB OUT [--pack FILE] [--limit SECONDS]: a job under a private Slurm on this machine's GPU, with Prism's plugins.
#
#   BIN has prismd, prism and moetrain; LIB has libprism.so, slurm/ (the plugins) and softgpu/; results go to OUT.
#   FILE is what tests/gpu/slurm_pack.sh made (default build/gpuslurm/slurm.tar.xz): taken where Slurm is not installed. Nothing
#   is written outside OUT and a temporary folder.
# 1. contrib/onebox starts one node with one GPU
# 2. prism doctor --measure on it: four processes, real NCCL (distinct NCCL_HOSTID)
# 3. srun --prism-emulate=4 --prism-sandbox=0: tests/gpu/torch/ddp.py on a real GPU with PyTorch, else moetrain on software GPUs
# 4. prism report, and the job's line in sacct
# All of it is over after --limit (default 280) seconds, the cluster's end included; PYTHON names an interpreter with PyTorch.
# Exit code 0 when all of it is there; the first thing that is missing is named on standard error.
set -u
usage() { echo "usage: tests/gpu/slurm.sh BIN LIB OUT [--pack FILE] [--limit SECONDS]" >&2; exit 64; }
[ $# -ge 3 ] || usage
bin=$(readlink -f "$1") lib=$(readlink -f "$2")
mkdir -p "$3" && out=$(readlink -f "$3") || exit 71
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
top=$(cd "$here/../.." && pwd)
pack=$top/build/gpuslurm/slurm.tar.xz given='' limit=280
shift 3
while [ $# -gt 0 ]; do
    case $1 in
        --pack) given=1 pack=$(readlink -f "${2:?--pack needs a file}") ;;
        --limit) limit=${2:?--limit needs seconds} ;;
        *) usage ;;
    esac
    shift 2
done
python=$(command -v "${PYTHON:-python3}")
onebox=$top/contrib/onebox/onebox
# Sockets lie below it: short.
work=$(mktemp -d /tmp/gs.XXXXXX) || exit 71
box=$work/box
# The end takes at most ENDING of the seconds.
ENDING=45
# Whatever still runs with this cluster's mark in its environment; this script and its own children have none.
leftovers() { grep -lsxzF "ONEBOX_DIR=$box" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
result() { # VERDICT: slurm.json, what page.py shows
    "$python" - "$1" "$SECONDS" "$out" <<'P' 2>/dev/null
import json, os, sys
verdict, seconds, out = sys.argv[1:]
lines = lambda name: open(os.path.join(out, name), errors="replace").read().splitlines() if os.path.exists(os.path.join(out, name)) else []
with open(os.path.join(out, "slurm.json"), "w") as text:
    json.dump({"format": "prism-slurm-results", "verdict": verdict, "seconds": int(seconds), "sacct": lines("sacct.txt"),
               "srun": lines("srun.txt")[-20:], "doctor": lines("doctor.txt")[-12:]}, text, indent=1)
P
}
finish() {
    local code=$?
    trap '' INT TERM HUP
    result "${verdict:-ended with exit code $code}"
    cp "$box"/log/*.log "$out/" 2>/dev/null
    timeout -k 5 30 "$onebox" stop "$box" >/dev/null 2>&1
    local left tries
    for ((tries = 0; tries < 20; tries++)); do
        left=$(leftovers)
        [ -n "$left" ] || break
        # shellcheck disable=SC2086
        kill -KILL $left 2>/dev/null
        sleep 0.2
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
verdict=
fail() { verdict="failed: $*"; echo "slurm.sh: $*" >&2; exit 1; }
# bounded SECONDS COMMAND...: at most what is left of the whole
bounded() {
    local most=$1 left=$((limit - ENDING - SECONDS))
    [ $left -gt 0 ] || { echo "slurm.sh: no time left for: ${*:2}" >&2; return 124; }
    timeout -k 5 $((most < left ? most : left)) "${@:2}"
}
inside() { bounded "$1" "$onebox" exec "$box" -- "${@:2}"; }

PATH=$PATH:/usr/sbin:/sbin
prefix=()
if ! command -v slurmctld >/dev/null || [ -n "$given" ]; then
    [ -s "$pack" ] || fail "Slurm is not installed and $pack is not there: make it with tests/gpu/slurm_pack.sh"
    mkdir "$work/prefix" && tar -C "$work/prefix" -xJf "$pack" || fail "cannot unpack $pack"
    # Jobs inherit LD_LIBRARY_PATH: what the system has itself must not be covered.
    for path in "$work"/prefix/lib/*; do
        ! ldconfig -p | grep -qF "${path##*/} (" || rm -f "$path"
    done
    prefix=(--prefix "$work/prefix")
fi

torch=''
if nvidia-smi -L >/dev/null 2>&1 && "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then torch=1; fi
program=("$python" "$here/torch/ddp.py")
gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
# Those that the caller made visible.
[ -z "${CUDA_VISIBLE_DEVICES:-}" ] || gpus=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l)
soft=()
if [ -z "$torch" ]; then
    echo "== no GPU with PyTorch here: moetrain on software GPUs"
    gpus=4
    soft=(--softgpu "$lib/softgpu")
    program=("$bin/moetrain" --tp=2 --iterations=4 --exact-sums)
else
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/gpu.txt"
    # prism itself needs the libraries that PyTorch brings, unless they are installed.
    if ! ldconfig -p | grep -q libnccl.so.2; then
        for part in nccl cu13; do
            each=$("$python" -c "import nvidia.$part as p; print(list(p.__path__)[0] + '/lib')" 2>/dev/null) &&
                export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$each
        done
    fi
fi

echo "== 1. a private Slurm"
bounded 120 "$onebox" start "$box" --nodes 1 --gpus "$gpus" --plugins "$lib/slurm" --libdir "$lib" --bindir "$bin" \
    "${prefix[@]}" "${soft[@]}" || fail "the cluster did not start"
inside 20 srun --version
inside 20 sinfo -o '%P %D nodes %t %G'

echo "== 2. prism doctor --measure"
# Several ranks of real NCCL share a GPU when each says it is another host. They talk over sockets then: this shows that the
# measurement works there, not how fast NVLink is. Two ranks to a node, so that both kinds of link are measured.
cat >"$work/rank.sh" <<'R'
#!/bin/bash
export NCCL_HOSTID=host$SLURM_PROCID NCCL_SOCKET_IFNAME=lo NCCL_NVLS_ENABLE=0
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$((SLURM_PROCID % 2)) GROUP_RANK=$((SLURM_PROCID / 2))
exec "$@"
R
chmod +x "$work/rank.sh"
measure=("$bin/prism" doctor --measure --max-bytes=1048576 --max-seconds=0.05 --output="$out/network.json")
[ -z "$torch" ] || measure=("$work/rank.sh" "${measure[@]}")
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29581
inside 150 srun --ntasks=4 --gpus-per-node="$gpus" --overcommit --prism-emulate=0 \
    "${measure[@]}" 2>&1 | tee "$out/doctor.txt" | tail -n 12
unset MASTER_ADDR MASTER_PORT
[ -s "$out/network.json" ] || fail "prism doctor --measure wrote no profile: $(tail -n 1 "$out/doctor.txt")"

echo "== 3. srun --prism-emulate=4 --prism-sandbox=0 ${program[*]}"
inside 300 srun --job-name=prism-gpu --prism-emulate=4 --prism-sandbox=0 --prism-assistants=0 --prism-trace="$work/trace" \
    --prism-network="$out/network.json" "${program[@]}" >"$out/srun.txt" 2>&1 </dev/null
code=$?
tail -n 15 "$out/srun.txt"
cp "$work/trace/report.json" "$out/report.json" 2>/dev/null
tar -C "$work" -czf "$out/slurm-logs.tgz" trace/logs 2>/dev/null
[ $code -ne 124 ] || fail "srun had not ended after $SECONDS of $limit seconds"
[ $code -eq 0 ] || fail "srun ended with exit code $code"

echo "== 4. report and accounting"
inside 30 "$bin/prism" report "$out/report.json" >"$out/report.txt" 2>&1 || fail "prism report: $(tail -n 1 "$out/report.txt")"
head -n 40 "$out/report.txt"
grep -q '"exit_origin": *"program"' "$out/report.json" || fail "the report is missing or not of a run that ended by itself"
fields=JobID,JobName,State,ExitCode,Elapsed,NNodes,AllocTRES%44,Comment%64
for _ in $(seq 20); do # the database hears of a job a few seconds after its end
    inside 20 sacct --name=prism-gpu --starttime=now-1hours --allocations --format="$fields" >"$out/sacct.txt" 2>&1
    grep -q COMPLETED "$out/sacct.txt" && break
    sleep 1
done
cat "$out/sacct.txt"
grep COMPLETED "$out/sacct.txt" | grep -q 'gres/gpu=1' || fail "sacct does not show the job as completed on one GPU"
grep COMPLETED "$out/sacct.txt" | grep -q 'prism:world=4' || fail "sacct does not show what was emulated"
verdict=passed
echo "slurm.sh: ok"
