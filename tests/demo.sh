#!/usr/bin/env bash
# demo.sh --build FOLDER: the five-minute tour as one command (`make demo`).
#
# Boots a private one-box Slurm with software GPUs, measures its network, submits
#     srun --prism-emulate=1024 --prism-sandbox=0,513 moetrain ...
# and prints the report and the job's accounting line. Leaves build/demo/report.json, network.json and output.txt; stops
# the cluster whatever happens. Exit code: the program's.
set -u
build=build/release
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift 2 ;;
    *) echo "demo.sh: unknown argument $1 (usage: demo.sh --build FOLDER)" >&2; exit 64 ;;
    esac
done
cd "$(dirname "$(readlink -f "$0")")/.." || exit 71
build=$(readlink -f "$build")
out=$(readlink -f build)/demo
rm -rf "$out"
mkdir -p "$out" || exit 71
cluster=$(mktemp -d /tmp/prism-demo.XXXXXX) || exit 71 # short: Unix sockets lie below it
began=$(date +%s)

say() { printf '[%4d s] %s\n' $(($(date +%s) - began)) "$*"; }
finish() {
    contrib/onebox/onebox stop "$cluster" >/dev/null 2>&1
    rm -rf "$cluster"
}
trap finish EXIT
trap 'exit 130' INT TERM

say "starting a private Slurm cluster: 4 nodes of 8 software GPUs, with accounting"
contrib/onebox/onebox start "$cluster" --nodes 4 --gpus 8 --plugins "$build/lib/slurm" --libdir "$build/lib" \
    --bindir "$build/bin" --softgpu "$build/lib/softgpu" >"$out/onebox.txt" 2>&1 || { cat "$out/onebox.txt"; exit 71; }
inside() { contrib/onebox/onebox exec "$cluster" -- env SOFTGPU_TIME_SCALE="${PRISM_DEMO_SCALE:-2}" "$@"; }

say "measuring its network with NCCL, once for the cluster: srun -N2 --ntasks-per-node=4 prism doctor --measure"
# Node names of a one-box cluster do not resolve: say where rank 0 is.
inside env MASTER_ADDR=127.0.0.1 timeout 150 srun -J measure -N2 --ntasks-per-node=4 --gpus-per-node=4 "$build/bin/prism" doctor --measure \
    --max-seconds=0.1 --output="$out/network.json" 2>"$out/measure.txt" || { cat "$out/measure.txt"; exit 71; }

# The sandbox's two ranks run for real on one device each; six more devices help in capture and calibration.
program=("$build/bin/moetrain" --tp=2 --pp=4 --ep=4 --layers=4 --iterations=4 --print-ranks=all)
options=(--prism-emulate=1024 --prism-sandbox=0,513 --prism-assistants="${PRISM_DEMO_ASSISTANTS:-0}"
    --prism-gpus-per-node=8 --prism-network="$out/network.json" --prism-trace="$out/trace")
say "srun -N128 --ntasks-per-node=8 ${options[*]} moetrain ${program[*]:1}"
inside env PRISM_NODES=4 PRISM_DEVICES_PER_NODE=2 timeout 420 srun -J moetrain -N128 --ntasks-per-node=8 --gpus-per-node=8 \
    "${options[@]}" "${program[@]}" >"$out/output.txt"
code=$?
cat "$out/output.txt"
say "the job ended with exit code $code"
[ -s "$out/trace/report.json" ] || exit $((code ? code : 71))

"$build/bin/prism" report "$out/trace" --json --losses-from "$out/output.txt" >"$out/report.json" || exit 71
"$build/bin/prism" report "$out/report.json"

# slurmdbd gets the end of a job a few seconds late.
fields=JobID,JobName,NNodes,AllocTRES%40,State,ExitCode,Elapsed,Comment%70
for _ in $(seq 20); do
    line=$(inside sacct -X -n --name moetrain -o "$fields")
    case $line in *COMPLETED* | *FAILED* | *CANCELLED*) break ;; esac
    sleep 0.5
done
say "the job in the accounting (sacct):"
inside sacct -X --name moetrain -o "$fields"
say "done; the report is build/demo/report.json"
exit $code
