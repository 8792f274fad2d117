# What dies, fills up or goes away under a running emulation, on a private Slurm of four nodes: the job's state, what the
# user and sacct are told, and that nothing is left: no process, socket, shared memory, licence, no node that does not come
# back. docs/slurm.md has the table.
# As root the cluster has a /dev/shm of its own, which is full from the beginning to the end.

load helper
load live

setup_file() {
    [ -z "$(lacks_program)" ] || return 0
    work_folder
    export PRISM_ACCOUNTING_SECONDS=1 PRISM_STALL_SECONDS=0 # what hangs here is meant to
    ls -A /dev/shm | sort >shm-before
    CLUSTER=$(mktemp -d /tmp/onebox.XXXXXX)
    export CLUSTER
    local start=("$onebox" start "$CLUSTER" --nodes 4 --gpus 8 --plugins "$PRISM_BUILD/lib/slurm" --libdir "$PRISM_BUILD/lib"
        --bindir "$PRISM_BUILD/bin" --softgpu "$PRISM_BUILD/lib/softgpu")
    if own_mounts; then
        start=(unshare -m --propagation private bash -c 'mount -t tmpfs -o size=16k full /dev/shm &&
            { head -c 64k /dev/zero >/dev/shm/full; } 2>/dev/null; exec "$@"' - "${start[@]}")
    fi
    timeout 300 "${start[@]}" >&2 3>&-
    eval "$("$onebox" env "$CLUSTER")"
    sed -i 's/^PartitionName=main.*/& PriorityTier=1/' "$CLUSTER/etc/slurm.conf"
    printf '%s\n' 'PreemptType=preempt/partition_prio' 'PreemptMode=REQUEUE' \
        'PartitionName=urgent Nodes=ALL PriorityTier=9 OverSubscribe=NO' >>"$CLUSTER/etc/slurm.conf"
    end_daemon slurmctld TERM
    start_daemon slurmctld
    emulated_loop auto >&2 || { cat loop.err >&2; return 1; }
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_program)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    rm -f fault
}

teardown() {
    [ -z "${run:-}" ] || ! kill -0 "$run" 2>/dev/null || timeout 120 scancel --name=loop --signal=KILL 3>&-
}

# --- the cluster's daemons ---

own_mounts() { [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; }
on_cluster() { # COMMAND...: where the cluster's mounts are
    if own_mounts; then nsenter -m -t "$(tr -d '[:space:]' <"$CLUSTER/munge/munged.pid")" -- "$@"; else "$@"; fi
}
daemon_gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
end_daemon() { # NAME SIGNAL
    local pid
    pid=$(tr -d '[:space:]' <"$CLUSTER/run/$1.pid")
    kill "-$2" "$pid"
    await daemon_gone "$pid"
}
start_daemon() { # NAME
    local command=("$1")
    case $1 in
        slurmd.*) command=(slurmd -N "${1#slurmd.}") ;;
    esac
    PATH=$PATH:/usr/sbin:/sbin MYSQL_UNIX_PORT=$CLUSTER/run/db.sock on_cluster setsid "${command[@]}" </dev/null >"$CLUSTER/log/$1.again" 2>&1 3>&-
    case $1 in
        slurmctld) await timeout 60 scontrol ping >/dev/null ;;
        slurmdbd) await timeout 60 sacctmgr -n list cluster >/dev/null ;;
    esac
}

# --- what is said afterwards ---

job_named() { timeout 60 squeue -h -t all -n "$1" -o %i 3>&- | sort -n | tail -n 1; }
# The database's state of the newest job loop, and its Comment.
accounted_as() { timeout 60 sacct -X -n -P -j "$(job_named loop)" -o State,ExitCode,Comment%300 3>&- >accounted && grep -qE -- "$1" accounted; }
ends_as() { # REGEX of STATE|EXIT CODE|COMMENT
    await accounted_as "$1" || { cat accounted loop.err; return 1; }
}
said() { grep -qE -- "$1" loop.err || { echo "nothing says '$1':"; cat loop.err; return 1; }; }
licences_used() { timeout 60 scontrol -o show licenses 3>&- | sed -n 's/.*Used=\([0-9]*\).*/\1/p' | sort -u; }
clean() { # TRACE: nothing is left
    nothing_left "$1"
    [ "$(licences_used)" = 0 ] || { timeout 60 scontrol show licenses 3>&-; return 1; }
    ! own_mounts || [ "$(on_cluster ls -A /dev/shm)" = full ] || { on_cluster ls -A /dev/shm; return 1; }
}
goes_on() { # the trace that was there is still good
    more=()
    rm -f fault
    emulated_loop emulate || { cat loop.err; return 1; }
    grep -qx 'rank 4 iteration 7 sum 84' loop.out
}

# --- processes ---

@test "SIGKILL of a prismd" {
    start_hanging emulate
    kill -KILL "$(prismd_of_node 2)"
    ended_with 137
    said '^prism: node 2 \(node2\): its prismd has ended'
    ends_as '^FAILED\|0:9\|.*exit_code=68,exit_origin=prism'
    clean loop
}

rank_of() { # RANK: its process
    local pid
    for pid in $(pgrep -x looper); do
        if grep -qzxF "RANK=$1" "/proc/$pid/environ" && grep -qzF "ONEBOX_DIR=$CLUSTER" "/proc/$pid/environ"; then echo "$pid"; fi
    done
}

@test "SIGKILL of a rank" {
    start_hanging emulate
    kill -KILL "$(rank_of 2)"
    ended_with 137
    said 'rank 2.*(SIGKILL|signal 9|[Kk]illed)'
    ends_as '^FAILED\|.*exit_code=137,exit_origin=program'
    clean loop
}

@test "SIGKILL of an assistant" {
    more=(--prism-assistants=4)
    start_hanging emulate
    kill -KILL "$(on_node 1 bin/prism-assistant | head -n 1)"
    ended_with 68
    said 'assistant'
    ends_as '^FAILED\|68:0\|.*exit_code=68,exit_origin=prism'
    clean loop
}

parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status"; }

@test "SIGKILL of slurmstepd on one node: prismd ends the step, which srun by itself does not" {
    more=(--wait=0) # for ever; the plugin's is a minute
    start_hanging emulate
    stepd=$(parent_of "$(prismd_of_node 2)")
    grep -q slurmstepd "/proc/$stepd/comm"
    kill -KILL "$stepd"
    ended_with 137 143 68
    said 'slurmstepd of node 2 is gone|node 2 \(node2\): its prismd has ended'
    ends_as '^(FAILED|CANCELLED|NODE_FAIL)\|.*exit_code=68,exit_origin=prism'
    clean loop
}

@test "SIGKILL of slurmd on one node: the run goes on; the node is back with its slurmd" {
    start_hanging emulate
    end_daemon slurmd.node2 KILL
    rm fault
    await grep -qx 'rank 4 done' loop.out
    start_daemon slurmd.node2
    ended_with 0
    ends_as '^COMPLETED\|0:0\|.*exit_code=0,exit_origin=program'
    clean loop
}

# --- Slurm's services ---

@test "slurmctld restarted in mid-run" {
    start_hanging emulate
    end_daemon slurmctld TERM # a killed one forgets the last seconds: Slurm saves its state every five
    start_daemon slurmctld
    rm fault
    ended_with 0
    grep -qx 'rank 4 iteration 7 sum 84' loop.out
    ends_as '^COMPLETED\|0:0\|.*exit_code=0,exit_origin=program'
    clean loop
}

@test "slurmdbd down for the whole run" {
    end_daemon slurmdbd TERM
    goes_on
    clean loop
    start_daemon slurmdbd
    ends_as '^COMPLETED\|0:0\|.*state=ended.*exit_code=0,exit_origin=program'
}

@test "scancel" {
    start_hanging emulate
    timeout 120 scancel --name=loop 3>&-
    ended_with 143 137
    ends_as '^CANCELLED'
    clean loop
}

@test "scancel in calibration: the next run goes on from there" {
    rm -rf half
    cp -r loop half
    rm -f half/logs/*
    echo "hang 4 5" >fault
    more=(--prism-trace="$WORK/half")
    emulated_loop calibrate &
    run=$!
    await grep -qs 'rank 0 iteration 4' half/logs/calibrate.rank0
    timeout 120 scancel --name=loop 3>&-
    ended_with 143 137
    ends_as '^CANCELLED'
    rm fault
    emulated_loop auto || { cat loop.err; false; }
    grep -qx 'rank 4 iteration 7 sum 84' loop.out
    more=()
    clean half
}

@test "--time: what had been reached is in the database" {
    more=(--time=10)
    start_hanging emulate
    # slurmctld looks at time limits twice a minute.
    timeout 60 scontrol update JobId="$(job_named loop)" EndTime=now+1 3>&-
    ended_with 143 137
    said 'TIME LIMIT|CANCELLED.*TIME|time limit'
    ends_as '^TIMEOUT\|.*state=(emulate|ended),iterations=[1-9].*emulated_gpu_hours=[0-9.]*[1-9]'
    clean loop
}

# --- preemption: a batch job that is put back ---

# A batch job that hangs in PHASE (of trace ./requeued), is preempted and runs again.
preempted_in() { # PHASE
    local job
    echo "hang 4 5" >fault
    PRISM_NODES=4 PRISM_DEVICES_PER_NODE=2 timeout 120 sbatch --job-name=loop --requeue --open-mode=append -o batch.out -n 8 \
        --gpus-per-node=2 --prism-emulate=8 --prism-gpus-per-node=2 --prism-sandbox=0,2,4,6 --prism-assistants=0 --prism-phase="$2" \
        --prism-trace="$WORK/requeued" --wrap "srun $looper fault 8 5" 3>&- >&2
    job=$(job_named loop)
    await grep -qs 'rank 0 iteration 4' "$1" || { cat batch.out; return 1; }
    timeout 300 srun --job-name=urgent -p urgent -N 4 --exclusive rm -f "$WORK/fault" 3>&-
    hurried=
    await runs_again_to_its_end "$job" || { cat batch.out; return 1; }
}
# Slurm holds a requeued job back for two minutes, because its nodes refuse credentials of the second in which they have
# ended the job: a few seconds do.
runs_again_to_its_end() {
    local state
    state=$(timeout 60 squeue -h -t all -j "$1" -o %T 3>&-)
    if [ "$state" = PENDING ] && [ -z "$hurried" ]; then
        ! timeout 60 scontrol update JobId="$1" StartTime=now+3 3>&- 2>/dev/null || hurried=1
    fi
    [ "$state" = COMPLETED ]
}

@test "preempted in capture: it starts again and says so" {
    rm -rf requeued batch.out
    preempted_in requeued/logs/capture.rank0 auto
    [ "$(grep -c 'capturing 8 ranks' batch.out)" -eq 2 ] || { cat batch.out; false; }
    grep -q 'earlier capture into .*/requeued did not come to its end: it starts again' batch.out || { cat batch.out; false; }
    grep -qx 'rank 4 iteration 7 sum 84' batch.out
    ends_as '^COMPLETED\|0:0\|.*restart=1.*state=ended.*exit_code=0'
    clean requeued
}

@test "preempted in emulation: finished phases are kept" {
    rm -f batch.out
    preempted_in batch.out auto
    absent 'captur|calibrat' batch.out
    [ "$(grep -cx 'rank 4 iteration 7 sum 84' batch.out)" -eq 1 ]
    ends_as '^COMPLETED\|0:0\|.*restart=1.*state=ended.*exit_code=0'
    clean requeued
}

# --- a node ---

@test "a node lost with all that ran on it" {
    start_hanging emulate
    end_daemon slurmd.node2 KILL
    stepd=$(parent_of "$(prismd_of_node 2)")
    kill -KILL "$stepd" $(prismd_of_node 2) $(rank_of 4)
    await said '^prism: node 2 \(node2\): its prismd has ended'
    # What slurmctld does by itself after SlurmdTimeout.
    timeout 60 scontrol update NodeName=node2 State=DOWN Reason=lost 3>&-
    ended_with 137 143 68 1
    ends_as '^NODE_FAIL'
    start_daemon slurmd.node2
    timeout 60 scontrol update NodeName=node2 State=RESUME 3>&- 2>/dev/null || true # its slurmd may have done it
    clean loop
}

# --- full file systems ---

@test "the trace's file system is full" {
    own_mounts || skip "mounts need root"
    mkdir -p small
    on_cluster mount -t tmpfs -o size=64k small "$WORK/small"
    run timeout 300 srun --job-name=loop -n 8 --gpus-per-node=8 --prism-emulate=8 --prism-assistants=0 --prism-trace="$WORK/small/trace" \
        "$looper" fault 60 0 3>&-
    echo "$output" >loop.err
    [ "$status" -eq 65 ]
    said 'small/trace.*No space left'
    ends_as '^FAILED\|65:0\|.*exit_code=65,exit_origin=prism'
    on_cluster umount "$WORK/small"
    clean loop
}

state_of_node2() { timeout 60 sinfo -h -N -n node2 -p main -o %t 3>&-; }
is_drained() { [[ "$(state_of_node2)" = drain* ]]; }
resume() { timeout 60 scontrol update NodeName=node2 State=RESUME 3>&- 2>/dev/null || true; }
works_again() { # slurmd may call for the drain some time after the job
    ! is_drained || resume
    timeout 20 srun -w node2 -n 1 true 3>&-
}
in_spool() { on_cluster find "$CLUSTER/spool/node2" -mindepth 1 -printf '%P\n' | sort; }

@test "a node's spool is full: emulation does not need it; Slurm itself drains the node" {
    own_mounts || skip "mounts need root"
    local plugstack before
    plugstack=$(cat "$CLUSTER/etc/plugstack.conf")
    end_daemon slurmd.node2 TERM
    on_cluster mount -t tmpfs -o size=64k spool "$CLUSTER/spool/node2"
    start_daemon slurmd.node2
    await nodes_idle
    on_cluster sh -c "head -c 1M /dev/zero >$CLUSTER/spool/node2/full" 2>/dev/null || true
    # Without any plugin of ours: slurmd cannot save its credentials when a job ends.
    : >"$CLUSTER/etc/plugstack.conf"
    timeout 120 srun -w node2 -n 1 true 3>&-
    await is_drained
    echo "$plugstack" >"$CLUSTER/etc/plugstack.conf"
    resume
    before=$(in_spool)
    goes_on
    [ "$(in_spool)" = "$before" ] || { diff <(echo "$before") <(in_spool); false; }
    on_cluster rm "$CLUSTER/spool/node2/full"
    await works_again
    clean loop
}

# --- another version ---

@test "prismd of another version than the node's plugin: 68 and both versions" {
    local plugstack
    plugstack=$(cat "$CLUSTER/etc/plugstack.conf")
    sed 's/0\.1\.0/0.0.9/g' "$PRISM_BUILD/lib/slurm/spank_prism.so" >spank_prism.so
    sed "s|[^ ]*/spank_prism.so|$WORK/spank_prism.so|" <<<"$plugstack" >"$CLUSTER/etc/plugstack.conf"
    emulated_loop emulate &
    run=$!
    ended_with 68
    echo "$plugstack" >"$CLUSTER/etc/plugstack.conf"
    said "^prism: .*/prismd is Prism 0.1.0, this node's Slurm plugin is 0.0.9: install one version"
    clean loop
}

@test "prismd of another version on one node: 68 at once, which node and both versions" {
    local plugstack
    more=(--wait=0) # nodes that waited for each other would do so until the test's own limit
    plugstack=$(cat "$CLUSTER/etc/plugstack.conf")
    # Node 2 has plugin and prismd of another build.
    mkdir -p other
    sed 's/0\.1\.0/0.0.9/g' "$PRISM_BUILD/bin/prismd" >other/prismd-0.0.9
    printf '#!/bin/sh\n[ "$SLURMD_NODENAME" = node2 ] || exec %s/bin/prismd "$@"\nPRISM_PLUGIN_VERSION=0.0.9 exec %s/other/prismd-0.0.9 "$@"\n' \
        "$PRISM_BUILD" "$WORK" >other/prismd
    chmod 755 other/prismd other/prismd-0.0.9
    sed "s|bindir=[^ ]*|bindir=$WORK/other|" <<<"$plugstack" >"$CLUSTER/etc/plugstack.conf"
    PRISM_LINK_SECONDS=3000 emulated_loop emulate &
    run=$!
    ended_with 68
    echo "$plugstack" >"$CLUSTER/etc/plugstack.conf"
    said '^prism: node 2 runs another version of Prism \(0.0.9, node 0 0.1.0\): install the same one on all nodes'
    ends_as '^FAILED\|68:0\|.*prism:world=8'
    clean loop
}

# --- containers that a plugin makes ---

@test "a plugin in front of ours puts the task into another mount namespace, as pyxis does" {
    own_mounts || skip "mounts need root"
    local plugstack
    plugstack=$(cat "$CLUSTER/etc/plugstack.conf")
    gcc -shared -fPIC -o container.so "$PRISM_SOURCE/tests/slurm/container_spank.c"
    mkdir -p outside && touch outside/file
    printf 'optional %s/container.so\n%s\n' "$WORK" "$plugstack" >"$CLUSTER/etc/plugstack.conf"
    FAKE_CONTAINER=$WORK/outside goes_on
    # prismd and the ranks are inside.
    run env FAKE_CONTAINER="$WORK/outside" timeout 300 srun -n 2 --gpus-per-node=2 --prism-emulate=2 sh -c 'echo "files $(ls outside | wc -l)"' 3>&-
    [ "$(grep -cx 'files 0' <<<"$output")" -eq 2 ] || { echo "$output"; false; }
    # A container without Prism.
    run env FAKE_CONTAINER="$PRISM_BUILD/lib" timeout 300 srun --prism-emulate=8 sh -c 'echo plainly $SLURM_NTASKS' 3>&-
    echo "$plugstack" >"$CLUSTER/etc/plugstack.conf"
    [ "$status" -eq 0 ]
    says "this node lacks $PRISM_BUILD/lib/libprism.so: the program runs without emulation"
    has "plainly 1"
    run=
    clean loop
}

# --- programs that are not ours to touch ---

@test "setuid programs do not load the library" {
    [ "$(id -u)" -eq 0 ] || skip "only root can make a program of another user's"
    cp "$(command -v cat)" cat
    chown nobody cat
    chmod 4755 cat
    chmod 755 "$WORK"
    run timeout 300 srun --prism-emulate=8 --prism-assistants=0 "$WORK/cat" /proc/self/maps 3>&-
    [ "$status" -eq 0 ]
    says "$WORK/cat"
    has_not 'libprism'
    run=
}
