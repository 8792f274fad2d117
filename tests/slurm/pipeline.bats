# The whole path on a private Slurm with software GPUs: capture, calibration and emulation under srun on one node and on
# four; interruptions and killed daemons. moetrain's losses are those of a plain run.

load helper
load live

world16=(--tp=2 --pp=2 --ep=2 --iterations=3 --exact-sums --print-ranks=all)
stages=(--pp=4 --layers=4 --moe-every=0 --micro-batches=4 --variable-seq --iterations=2 --exact-sums --print-ranks=all)

lacks_pipeline() { lacks_program bin/moetrain; }

setup_file() {
    [ -z "$(lacks_pipeline)" ] || return 0
    work_folder
    export PRISM_STALL_SECONDS=0 # what hangs here is meant to
    export moetrain=$PRISM_BUILD/bin/moetrain
    mkdir -m 700 softgpu
    (
        export LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu SOFTGPU_DIR=$WORK/softgpu
        timeout 300 "$PRISM_SOURCE/contrib/moetrain/launch.sh" -g 4 16 -- "$moetrain" "${world16[@]}" >plain16 3>&-
        timeout 300 "$PRISM_SOURCE/contrib/moetrain/launch.sh" -g 4 8 -- "$moetrain" "${stages[@]}" >plain8 3>&-
    )
    real_cluster --nodes 4 --gpus 8
    # What emulation is interrupted in.
    emulated_loop auto >&2
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_pipeline | head -n 1)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    rm -f fault
    ls -A /dev/shm | sort >shm-before
}

teardown() {
    [ -z "${run:-}" ] || ! kill -0 "$run" 2>/dev/null || timeout 120 scancel --name=loop --signal=KILL 3>&-
}

# --- plain runs against emulated ones ---

lines_of() { sed -nE "s/^([0-9]+: )?(rank $1 (iteration|peak).*)/\2/p" "$2" | sed -E 's/ seconds [0-9.]+//'; }

same_as_plain() { # PLAIN RANK...: losses, gradient norms and peak memory, bit by bit
    local plain=$1 rank
    shift
    for rank in "$@"; do
        [ -n "$(lines_of "$rank" "$plain")" ] || { echo "no rank $rank in $plain"; return 1; }
        diff <(lines_of "$rank" "$plain") <(lines_of "$rank" out) || { cat err; return 1; }
    done
}

# emulated NODES DEVICES srun arguments...: standard output in ./out, standard error in ./err
emulated() {
    local nodes=$1 devices=$2 code=0
    shift 2
    PRISM_NODES=$nodes PRISM_DEVICES_PER_NODE=$devices timeout 300 srun --label --gpus-per-node=4 --prism-gpus-per-node=4 \
        --prism-assistants=0 "$@" >out 2>err 3>&- </dev/null || code=$?
    [ $code -eq 0 ] || { echo "exit code $code:"; cat err; return 1; }
}

phase_seconds() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["phases"][sys.argv[2]])' "$1/report.json" "$2"; }

@test "one node: captured, calibrated, emulated; losses of the plain run" {
    emulated 1 4 -n 16 --prism-emulate=16 --prism-sandbox=0,9 --prism-trace="$WORK/one" "$moetrain" "${world16[@]}"
    same_as_plain plain16 0 9
    [ "$(grep -c ' iteration ' out)" -eq 6 ]
    grep -q 'capturing 16 ranks on 1 node$' err
    nothing_left one
}

@test "four nodes: two ranks of one tensor group on different nodes; the second run only emulates" {
    local run=(-n 16 --prism-emulate=16 --prism-sandbox=0,1,9 --prism-trace="$WORK/four" "$moetrain" "${world16[@]}")
    emulated 4 2 "${run[@]}"
    same_as_plain plain16 0 1 9
    grep -q 'capturing 16 ranks on 4 nodes' err
    grep -q '^0: rank 0 ' out
    grep -q '^1: rank 1 ' out
    grep -q '^2: rank 9 ' out
    [ "$(phase_seconds four capture)" != 0.0 ]

    emulated 4 2 "${run[@]}"
    same_as_plain plain16 0 1 9
    [ "$(phase_seconds four capture)" = 0.0 ]
    [ "$(phase_seconds four calibrate)" = 0.0 ]
    absent 'captur|calibrat' err
    python3 -c '
import json
r = json.load(open("four/report.json"))
assert r["world"] == 16 and r["nodes"] == 4 and r["sandbox"] == [0, 1, 9], r
assert all(len(r["iteration_seconds"][k]) == 3 and r["peak_memory_bytes"][k] > 0 for k in ("0", "1", "9")), r
assert r["exit_code"] == 0 and r["exit_origin"] == "program" and r["clock_error_us"] > 0, r
assert r["prefetch"]["hits"] > 0, r'
    nothing_left four
}

@test "folded on four nodes: half of the ranks run in capture, losses of the plain run of all" {
    LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu SOFTGPU_DIR=$WORK/softgpu timeout 300 "$PRISM_SOURCE/contrib/moetrain/launch.sh" -g 4 16 -- \
        "$moetrain" "${world16[@]}" --equal-data >plainfold 3>&-
    emulated 4 2 -n 16 --prism-emulate=16 --prism-sandbox=1,8 --prism-layout=tp:2,ep:2,dp:2,pp:2 --prism-fold=dp --prism-trace="$WORK/folded" \
        "$moetrain" "${world16[@]}" --equal-data
    same_as_plain plainfold 1 8
    grep -q 'capturing 8 of 16 ranks (folded: dp) on 4 nodes' err
    [ "$(ls folded/logs/capture.rank* | wc -l)" -eq 8 ]
    grep -q '"ranks_run": *8' folded/report.json
    nothing_left folded
}

@test "a sandbox rank in every pipeline stage, sequences of varying length, CUDA_DEVICE_MAX_CONNECTIONS=1" {
    export CUDA_DEVICE_MAX_CONNECTIONS=1
    emulated 4 2 -n 8 --prism-emulate=8 --prism-sandbox=0,2,4,6 --prism-trace="$WORK/stages" "$moetrain" "${stages[@]}"
    same_as_plain plain8 0 2 4 6
    nothing_left stages
}

@test "the program reads its own CUDA_DEVICE_MAX_CONNECTIONS in every phase" {
    CUDA_DEVICE_MAX_CONNECTIONS=1 emulated 2 2 -n 4 --prism-emulate=4 --prism-sandbox=0,2 --prism-trace="$WORK/connections" \
        "$looper" fault 3
    [ "$(grep -c 'connections 1$' out)" -eq 2 ]
    [ "$(cat connections/logs/capture.rank? | grep -c 'connections 1$')" -eq 4 ]
    [ "$(cat connections/logs/calibrate.rank? | grep -c 'connections 1$')" -eq 4 ]
}

@test "--prism-iterations ends capture and calibration on all nodes, not emulation" {
    emulated 4 2 -n 8 --prism-emulate=8 --prism-sandbox=0,5 --prism-iterations=2 --prism-trace="$WORK/short" "$looper" fault 60 40
    absent 'done$' short/logs/capture.rank? short/logs/calibrate.rank?
    grep -q '"iterations": *2' short/trace.json
    complete short
    for rank in 0 5; do
        grep -q "rank $rank iteration 1 sum 36" out
        grep -q "rank $rank iteration 59 sum 36" out # the last recorded one goes round
        grep -q "rank $rank done" out
    done
    nothing_left short
}

@test "sbatch: a script with #SBATCH lines" {
    cat >job.sh <<'S'
#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4 --output=job.out
#SBATCH --prism-emulate --prism-sandbox=0,5 --prism-assistants=0 --prism-gpus-per-node=4
srun --prism-trace="$PWD/batch" "$looper" fault 4
S
    timeout 300 sbatch --wait job.sh 3>&- || { cat job.out; false; }
    grep -qx 'rank 0 iteration 3 sum 52' job.out
    grep -qx 'rank 5 iteration 3 sum 52' job.out
    absent '^rank 1 ' job.out
    nothing_left batch
}

# --- interruptions ---

press_ctrl_c() { # srun wants it twice within a second
    local pid tries
    pid=$(srun_pid)
    [ -n "$pid" ]
    for tries in $(seq 60); do
        kill -INT "$pid" 2>/dev/null || return 0
        sleep 0.3
    done
}

ctrl_c_in() {
    start_hanging "$1"
    press_ctrl_c
    ended_with 130 137
    cleaned_up "$1"
}
scancel_in() {
    start_hanging "$1"
    timeout 120 scancel --name=loop 3>&-
    ended_with 143 137
    cleaned_up "$1"
}

@test "Ctrl-C in capture" { ctrl_c_in capture; }
@test "Ctrl-C in emulation" { ctrl_c_in emulate; }
@test "scancel in capture" { scancel_in capture; }
@test "scancel in emulation" { scancel_in emulate; }

killed_in() { # PHASE NODE: its prismd; the others end by themselves and name it
    local pid
    start_hanging "$1"
    pid=$(prismd_of_node "$2")
    [ -n "$pid" ]
    kill -KILL "$pid"
    ended_with 137
    grep -q "^prism: node $2 (node$2): its prismd has ended" loop.err || { cat loop.err; return 1; }
    [ "$(grep -c '^prism: node ' loop.err)" -eq 1 ]
    absent 'forcing job termination' loop.err
    if [ "$1" = capture ] && [ "$2" -eq 0 ]; then
        rm -f fresh/payload-0.dat # nobody is left to remove what the first node wrote
    fi
    cleaned_up "$1"
}

@test "a node's prismd is killed in capture" { killed_in capture 2; }
@test "a node's prismd is killed in emulation" { killed_in emulate 2; }
@test "the first node's prismd is killed in capture" { killed_in capture 0; }
@test "the first node's prismd is killed in emulation" { killed_in emulate 0; }

@test "after all of that the trace is still good" {
    emulated_loop emulate
    grep -qx 'rank 4 iteration 7 sum 84' loop.out
    nothing_left loop
}
