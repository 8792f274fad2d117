#!/usr/bin/env bash
# The demo: a private one-box Slurm with software GPUs, a job of 1,024 ranks emulated on a handful of them, its report and
# its line in Slurm's accounting. `make demo` runs it; what it makes stays in build/demo.
#
#   tests/demo.sh [--build build/release] [--world N] [--keep-cluster]
#
# Leaves build/demo/report.json, output.log (what srun printed), sacct.txt and the trace. The cluster is stopped whatever
# happens. Exit code 0 when the job ended well and the report is complete.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 71
cd "$top" || exit 71

build=build/release world=1024 keep=''
while [ $# -gt 0 ]; do
    case $1 in
        --build) build=${2:?--build needs a folder}; shift 2 ;;
        --world) world=${2:?--world needs a number}; shift 2 ;;
        --keep-cluster) keep=1; shift ;;
        *) echo "usage: tests/demo.sh [--build build/release] [--world N] [--keep-cluster]" >&2; exit 64 ;;
    esac
done
build=$(cd "$build" && pwd) || exit 71
demo=$(dirname "$build")/demo
sandbox=0,$((world / 2 + 1))
# TP 8 and PP 8; what is left is data parallel, of which at most eight ranks share the experts.
expert=$((world / 64 < 8 ? world / 64 : 8))
[ "$world" -ge 64 ] && [ $((world % 64)) -eq 0 ] && [ $((world / 64 % expert)) -eq 0 ] ||
    { echo "tests/demo.sh: --world must be 64 times a power of two" >&2; exit 64; }

say() { printf '\ndemo: %s (%s s)\n' "$*" "$SECONDS"; }

# Slow motion, so that two cores keep up with replaying a thousand ranks in real time.
export SOFTGPU_TIME_SCALE=${SOFTGPU_TIME_SCALE:-3}

# Sockets lie below it: the path must be short.
box=$(mktemp -d /tmp/prism-demo.XXXXXX) || exit 71
step=
finish() {
    trap - EXIT INT TERM HUP
    [ -z "$step" ] || kill -INT "$step" 2>/dev/null
    if [ -n "$keep" ]; then
        say "the cluster still runs: contrib/onebox/onebox stop $box"
        return
    fi
    contrib/onebox/onebox stop "$box" >/dev/null 2>&1
    rm -rf "$box"
}
trap finish EXIT
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM HUP

inside() { contrib/onebox/onebox exec "$box" -- "$@"; }

# Run in the background so that a signal reaches the trap at once.
run_step() {
    timeout 540 "$@" &
    step=$!
    wait "$step"
    local code=$?
    step=
    return $code
}

rm -rf "$demo"
mkdir -p "$demo"
say "booting a private Slurm cluster with software GPUs"
contrib/onebox/onebox start "$box" --plugins "$build/lib/slurm" --softgpu "$build/lib/softgpu" || exit 71
inside sinfo -o '%P %D nodes %t %G'

say "measuring the links of its GPUs: two nodes, eight GPUs each"
# All nodes of this cluster are this machine, and their names mean nothing to the resolver.
MASTER_ADDR=127.0.0.1 run_step contrib/onebox/onebox exec "$box" -- srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --gpus-per-node=8 \
    --overcommit --prism-emulate=0 "$build/bin/prism" doctor --measure --max-bytes=65536 --output="$demo/network.json" ||
    exit 1

# Two real nodes with four GPUs each: more than the two sandbox ranks need, so that calibration takes fewer slices.
export PRISM_NODES=2 PRISM_DEVICES_PER_NODE=4
# The job as one would submit it to 128 nodes of 8 GPUs; --prism-emulate makes a small one of it.
job=(srun --job-name=prism-demo --nodes=$((world / 8)) --ntasks="$world" --gpus-per-node=8 --prism-emulate="$world"
    --prism-sandbox="$sandbox" --prism-assistants=0 --prism-trace="$demo/trace" --prism-network="$demo/network.json"
    "$build/bin/moetrain" --tp=8 --pp=8 --ep="$expert" --layers=8 --heads=8 --experts=8 --micro-batches=8 --iterations=4
    --exact-sums --print-ranks="$sandbox")
say "a job of $world ranks, of which ranks $sandbox run for real:"
printf '%s ' "${job[@]}" | fold -s -w 110 | sed 's/^/    /'
printf '\n\n'
run_step contrib/onebox/onebox exec "$box" -- "${job[@]}" > >(tee "$demo/output.log") 2>&1
code=$?
sleep 0.3 # tee
if [ "$code" -ne 0 ]; then
    echo "demo: srun ended with exit code $code" >&2
    exit "$code"
fi

say "report"
"$build/bin/prism" report "$demo/trace" --losses-from="$demo/output.log" --json >"$demo/report.json" || exit 1
"$build/bin/prism" report "$demo/report.json"

say "what Slurm's accounting has"
fields=JobID,JobName,State,ExitCode,Elapsed,NNodes,AllocTRES%44,Comment%64
for _ in $(seq 20); do # the database hears of a job a few seconds after its end
    inside sacct --name=prism-demo --starttime=now-1hours --allocations --format="$fields" >"$demo/sacct.txt" 2>&1
    grep -q COMPLETED "$demo/sacct.txt" && break
    sleep 1
done
cat "$demo/sacct.txt"
grep -q COMPLETED "$demo/sacct.txt" || { echo "demo: sacct does not show the job as completed" >&2; exit 1; }

python3 - "$demo/report.json" "$world" "$sandbox" <<'PY'
import json, sys
report, world, sandbox = json.load(open(sys.argv[1])), int(sys.argv[2]), sys.argv[3].split(",")
for key in ("phases", "predicted_seconds", "pacing_us"):
    assert report.get(key), f"the report lacks {key}"
assert report["world"] == world and report["exit_origin"] == "program", "world or origin are wrong"
assert all(report[key].get(rank) for key in ("iteration_seconds", "losses", "peak_memory_bytes") for rank in sandbox), \
    "a sandbox rank is missing"
assert world < 1024 or report["devices"] <= world / 100, f"{report['devices']} devices are more than 1 % of the world"
PY
[ $? -eq 0 ] || exit 1
say "done; everything is in $demo"
