# Capture with many ranks a node, over two nodes of a private Slurm: what a rank and a prismd take is bounded by design, the numbers are
# those of a capture on one node, equal ranks are stored once. tests/scale/run measures full-size worlds.

load helper

world=256

lacks_scale() {
    local file
    lacks_plugins
    for file in bin/prismd bin/moetrain lib/libprism.so lib/softgpu/libcuda.so.1; do
        [ -e "$PRISM_BUILD/$file" ] || echo "$file is not built"
    done
}

setup_file() {
    [ -z "$(lacks_scale)" ] || return 0
    local name
    for name in $(compgen -e | grep -E '^(PRISM_|SLURM_|SOFTGPU_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_|CUDA_)'); do
        case $name in PRISM_BUILD | PRISM_SOURCE) ;; *) unset "$name" ;; esac
    done
    WORK=$(mktemp -d)
    export WORK PRISM_NODES=2 PRISM_DEVICES_PER_NODE=8 PRISM_NETWORK=$PRISM_SOURCE/tests/fixtures/network.json
    cd "$WORK"
    cluster_start --nodes 2 --gpus 8 --plugins "$PRISM_BUILD/lib/slurm" --libdir "$PRISM_BUILD/lib" --bindir "$PRISM_BUILD/bin" \
        --softgpu "$PRISM_BUILD/lib/softgpu"
    eval "$("$onebox" env "$CLUSTER")"
}

teardown_file() {
    cluster_stop
    [ -z "${WORK:-}" ] || rm -rf "$WORK"
}

setup() {
    local reason
    reason=$(lacks_scale | head -n 1)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
}

model=("--options=$PRISM_SOURCE/etc/moetrain/8192.conf" --ep=2)

# Looks at the processes of the run, whose environment holds $1, until $2 ends; complains about what is above its bound.
watch_bounds() {
    python3 - "$1" "$2" "$world" <<'PY'
import glob, os, re, sys, time
mark, job, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def read(path): # "": its process is gone, maybe since it was opened
    try:
        with open(path, errors="replace") as f: return f.read()
    except OSError: return ""
def number(text, name):
    found = re.search(rf"^{name}:\s+(\d+)", text, re.M)
    return int(found.group(1)) if found else 0
def alive():
    state = read(f"/proc/{job}/stat").rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"
daemons, seen, most, wrong = set(), set(), dict(threads=0, kb=0, daemon_files=0, daemon_threads=0, rank_files=0), []
while alive():
    for path in glob.glob("/proc/[0-9]*/comm"):
        pid = int(path.split("/")[2])
        if pid not in daemons and read(path).strip() == "prismd" and mark in read(f"/proc/{pid}/environ"):
            daemons.add(pid)
    daemons = {d for d in daemons if read(f"/proc/{d}/comm").strip() == "prismd" or not os.path.exists(f"/proc/{d}")} # not a rank before its exec
    for d in daemons:
        try: most["daemon_files"] = max(most["daemon_files"], len(os.listdir(f"/proc/{d}/fd")))
        except OSError: continue
        most["daemon_threads"] = max(most["daemon_threads"], number(read(f"/proc/{d}/status"), "Threads"))
        for child in [c for t in glob.glob(f"/proc/{d}/task/*/children") for c in read(t).split()]:
            if read(f"/proc/{child}/comm").strip() != "moetrain": continue
            seen.add(child)
            most["threads"] = max(most["threads"], number(read(f"/proc/{child}/status"), "Threads"))
            roll = read(f"/proc/{child}/smaps_rollup")
            most["kb"] = max(most["kb"], number(roll, "Pss"))
            try: most["rank_files"] = max(most["rank_files"], len(os.listdir(f"/proc/{child}/fd")))
            except OSError: pass
    time.sleep(0.2)
print(len(daemons), "daemons,", len(seen), "ranks seen, at most", most)
# A rank: its own thread and at times the software GPU's; 1 MB. prismd: a socket a rank of its own, a store connection a rank of the world, few more.
bounds = dict(threads=2, kb=1000, daemon_files=world // 2 + world + 64, daemon_threads=4, rank_files=16)
for name, bound in bounds.items():
    if most[name] > bound: wrong.append(f"{name}: {most[name]}, the bound is {bound}")
if len(daemons) < 2 or len(seen) < world // 4: wrong.append("too little was seen")
print("\n".join(wrong))
sys.exit(bool(wrong))
PY
}

@test "256 ranks on two nodes: threads, descriptors and memory within the bounds of the design" {
    local job
    export PRISM_SCALE_MARK=scale-$$-$RANDOM
    timeout 500 srun --nodes=$((world / 8)) --ntasks=$world --gpus-per-node=8 --prism-emulate=$world --prism-sandbox=0,128 \
        --prism-phase=capture --prism-trace="$WORK/trace" "$PRISM_BUILD/bin/moetrain" "${model[@]}" >out 2>err 3>&- &
    job=$!
    watch_bounds "PRISM_SCALE_MARK=$PRISM_SCALE_MARK" "$job"
    wait "$job" || { cat err; return 1; }
    "$PRISM_BUILD/bin/prism" verify trace
    "$PRISM_BUILD/bin/prism" info trace --json >info
    python3 -c '
import json
r = json.load(open("info"))
assert r["world"] == 256 and r["complete"] and r["iterations"] == 3 and r["nodes"] == 2, r
calls = sum(r["ops"].values()) / r["world"] / r["iterations"]
assert calls >= 200, f"only {calls} NCCL calls a rank and iteration"
assert 0 < r["graph_file"]["blocks"] <= 64, r["graph_file"]
assert r["classes"] <= 32, r["classes"]'
}

@test "the same on one node: the same losses, the same structure" {
    export LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu SOFTGPU_DIR=$WORK/softgpu
    unset PRISM_NODES PRISM_DEVICES_PER_NODE
    mkdir -m 700 "$SOFTGPU_DIR"
    timeout 500 "$PRISM_BUILD/bin/prism" run --emulate=$world --sandbox=0,128 --phase=capture --trace="$WORK/alone" \
        -- "$PRISM_BUILD/bin/moetrain" "${model[@]}" >out 2>err 3>&- </dev/null || { cat err; return 1; }
    diff <(sed -E 's/ seconds [0-9.]+//' trace/logs/capture.rank0) <(sed -E 's/ seconds [0-9.]+//' alone/logs/capture.rank0)
    grep -q 'iteration 2 loss' alone/logs/capture.rank0
    "$PRISM_BUILD/bin/prism" info alone --json >alone.info
    python3 -c '
import json
one, two = json.load(open("alone.info")), json.load(open("info"))
for key in ("classes", "communicators", "graph_nodes", "groups", "ops"):
    assert one[key] == two[key], (key, one[key], two[key])
assert one["graph_file"]["blocks"] == two["graph_file"]["blocks"], (one["graph_file"], two["graph_file"])'
}

@test "limits that do not hold the ranks are told before any is started" {
    export LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu SOFTGPU_DIR=$WORK/softgpu2
    unset PRISM_NODES PRISM_DEVICES_PER_NODE
    mkdir -m 700 "$SOFTGPU_DIR"
    run bash -c 'ulimit -n 300; exec timeout 60 "$0" run --emulate=256 --sandbox=0 --phase=capture --trace=none -- "$1" --iterations=1' \
        "$PRISM_BUILD/bin/prism" "$PRISM_BUILD/bin/moetrain"
    [ "$status" -eq 71 ] || { echo "exit code $status: $output"; return 1; }
    says 'open files'
    says 'ulimit -n'
    [ -z "$(ls none/logs)" ]
}
