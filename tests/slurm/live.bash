# live.bash - runs that are disturbed while they go on: looper on four nodes of a cluster (helper.bash), who is who among
# its processes, and what is left. Expects $WORK (the current folder), $looper and $CLUSTER.

# A run of looper with a sandbox rank on each of the four nodes. auto: the trace ./loop that is interrupted in emulation.
# More srun arguments come from the array `more`.
emulated_loop() { # PHASE
    local trace=$WORK/loop
    [ "$1" != capture ] || trace=$WORK/fresh
    # As from a terminal: a background job of a shell ignores SIGINT.
    PRISM_NODES=4 PRISM_DEVICES_PER_NODE=2 timeout --foreground 300 python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' srun --job-name=loop -n 8 --gpus-per-node=2 --prism-emulate=8 --prism-gpus-per-node=2 \
        --prism-sandbox=0,2,4,6 --prism-assistants=0 --prism-trace="$trace" --prism-phase="$1" "${more[@]}" "$looper" fault 8 5 \
        >loop.out 2>loop.err 3>&- </dev/null
}
more=()

# Start one that hangs in PHASE (rank 4, iteration 5) and wait until it does. Sets $run: the pid of timeout, whose child
# is srun.
start_hanging() {
    rm -rf fresh loop.out loop.err
    echo "hang 4 5" >fault
    emulated_loop "$1" &
    run=$!
    local progress=loop.out
    [ "$1" != capture ] || progress=fresh/logs/capture.rank0
    await grep -qs 'rank 0 iteration 4' "$progress" || { cat loop.err; return 1; }
}

srun_pid() { pgrep -P "$(pgrep -P "$run" -x timeout || echo "$run")" -x srun | head -n 1; }

ended_with() { # CODE...: the run ends with one of these
    local code=0 expected
    wait "$run" || code=$?
    for expected in "$@"; do [ "$code" -ne "$expected" ] || return 0; done
    echo "exit code $code, expected $*:"
    cat loop.err
    return 1
}

# Processes of this cluster's steps, other than zombies.
step_processes() {
    local environ pid exe
    for environ in $(grep -lsaF "ONEBOX_DIR=$CLUSTER" /proc/[0-9]*/environ); do
        pid=${environ#/proc/} pid=${pid%/environ}
        exe=$(readlink "/proc/$pid/exe") || continue
        case $exe in "$PRISM_BUILD"/*) echo "$pid $exe" ;; esac
    done
}
nodes_idle() { [ "$(timeout 60 sinfo -h -N -p main -o %t 3>&- | sort | uniq -c | tr -s ' ')" = ' 4 idle' ]; }
all_gone() {
    [ -z "$(step_processes)" ] && [ -z "$(ls -A /dev/shm | sort | comm -13 shm-before -)" ] && [ -z "$(ls -Ad -- "$1"/.prismd-* "$1"/.step-* 2>/dev/null)" ] &&
        nodes_idle
}
nothing_left() { # TRACE
    await all_gone "$1" || {
        step_processes
        ls -A /dev/shm "$1"
        sinfo -N; sinfo -R
        return 1
    }
}

incomplete() { grep -q '"complete": *false' "$1/trace.json" && [ -z "$(ls "$1"/payload-* 2>/dev/null)" ]; }
complete() { grep -q '"complete": *true' "$1/trace.json" && [ -s "$1/graph.bin" ]; }

# The trace of an interrupted PHASE is as it should be, and nothing else is left.
cleaned_up() {
    if [ "$1" = capture ]; then
        await incomplete fresh # srun may be gone before prismd
        nothing_left fresh
    else
        complete loop
        nothing_left loop
    fi
}

# Pids on node N of the step: prismd, or another program of ours
on_node() { # N PROGRAM
    local pid exe
    while read -r pid exe; do
        if [ "$exe" = "$PRISM_BUILD/$2" ] && grep -qzx "SLURMD_NODENAME=node$1" "/proc/$pid/environ"; then echo "$pid"; fi
    done < <(step_processes)
}
prismd_of_node() { on_node "$1" bin/prismd; }
