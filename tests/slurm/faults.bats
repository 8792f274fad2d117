# Slurm's own daemons fail, restart or are of the wrong kind while a job is emulated: how the job ends, what the user and sacct
# are told, and that nothing is left. (prismds, Ctrl-C and scancel: pipeline.bats; prism.conf: policy.bats.)

load helper

setup_file() {
    [ -z "$(lacks_plugins)" ] || return 0
    local name
    for name in $(compgen -e | grep -E '^(PRISM_|SLURM_|SOFTGPU_)'); do
        case $name in PRISM_BUILD | PRISM_SOURCE) ;; *) unset "$name" ;; esac
    done
    WORK=$(mktemp -d)
    export WORK SOFTGPU_TIME_SCALE=0.05 PRISM_NETWORK=$PRISM_SOURCE/tests/fixtures/network.json PRISM_ACCOUNTING_SECONDS=1
    export looper=$PRISM_BUILD/test/looper
    cd "$WORK"
    cluster_start --nodes 3 --plugins "$PRISM_BUILD/lib/slurm" --libdir "$PRISM_BUILD/lib" --bindir "$PRISM_BUILD/bin" \
        --softgpu "$PRISM_BUILD/lib/softgpu"
    eval "$("$onebox" env "$CLUSTER")"
    emulated auto >&2
    # slurmctld looks at time limits twice a minute: this one runs beside the tests and is looked at last.
    mkdir late
    echo "hang 4 4" >late/fault
    timeout 60 sbatch --chdir="$WORK/late" --nodelist=node2 --job-name=late -o late.out -n 8 --gpus-per-node=4 --prism-emulate=8 --prism-gpus-per-node=4 \
        --prism-sandbox=0,4 --prism-assistants=0 --prism-trace="$WORK/loop" --wrap "srun $looper fault 6" >&2 3>&-
    within 20 eval '[ -n "$(job_of late)" ] && timeout 20 scontrol update JobId="$(job_of late)" EndTime=now+5'
    LATE=$(job_of late)
    export LATE
}

teardown_file() {
    cluster_stop
    [ -z "${WORK:-}" ] || rm -rf "$WORK"
}

setup() {
    local reason
    reason=$(lacks_plugins)
    [ -e "$PRISM_BUILD/test/looper" ] || reason="looper is not built"
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    rm -f fault
    ls -A /dev/shm | sort >shm-before
}

teardown() {
    [ -z "${run:-}" ] || ! kill -0 "$run" 2>/dev/null || timeout 30 scancel --name=loop --signal=KILL 3>&-
}

job_of() { timeout 20 squeue -h -t running -n "$1" -o %i 3>&-; }

# Two nodes, a sandbox rank on each. Output in loop.out, loop.err.
emulated() { # PHASE [looper's arguments]
    local phase=$1
    shift
    : "${trace:=loop}"
    PRISM_NODES=2 PRISM_DEVICES_PER_NODE=2 timeout --foreground 100 srun --exclude=node2 --job-name=loop -n 8 --gpus-per-node=4 \
        --prism-emulate=8 --prism-gpus-per-node=4 --prism-sandbox=0,4 --prism-assistants=0 --prism-trace="$WORK/$trace" \
        --prism-phase="$phase" "$looper" fault "${@:-6}" >loop.out 2>loop.err 3>&- </dev/null
}

start_hanging() {
    echo "hang 4 4" >fault
    rm -f loop.out
    emulated emulate &
    run=$!
    within 40 grep -qs 'rank 0 iteration 3' loop.out || { cat loop.err; return 1; }
}

ended_with() { # CODE...
    local code=0 expected
    wait "$run" || code=$?
    for expected in "$@"; do [ "$code" -ne "$expected" ] || return 0; done
    echo "exit code $code, expected $*:"
    cat loop.err
    return 1
}

# Processes of this cluster's jobs, without the one that waits for its time limit.
step_processes() {
    local pid exe
    for pid in $(grep -lsaF "ONEBOX_DIR=$CLUSTER" /proc/[0-9]*/environ | cut -d/ -f3); do
        exe=$(readlink "/proc/$pid/exe") || continue
        case $exe in "$PRISM_BUILD"/*) grep -qszx "SLURM_JOB_ID=$LATE" "/proc/$pid/environ" || echo "$pid $exe" ;; esac
    done
}
all_gone() {
    [ -z "$(step_processes)" ] && [ -z "$(ls -A /dev/shm | sort | comm -13 shm-before -)" ] &&
        [ "$(timeout 20 sinfo -h -N -n node0,node1 -o %t 3>&- | sort -u)" = idle ] &&
        [ "$(licences_used)" -le "$(late_licences)" ]
}
licences_used() { timeout 20 scontrol -o show licenses 3>&- | sed -n 's/^LicenseName=prism_rank .*Used=\([0-9]*\) .*/\1/p'; }
late_licences() { if [ -n "$(job_of late)" ]; then echo 8; else echo 0; fi; }
nothing_left() { within 40 all_gone || { step_processes; sinfo -N; scontrol -o show licenses; ls -A /dev/shm; return 1; }; }

last_comment() { timeout 20 squeue -h -t all -n loop -o '%i %k' 3>&- | sort -n | tail -n 1; }
in_database() { timeout 20 sacct -X -n -P -j "$1" -o State,Comment 2>/dev/null 3>&- | grep -qE -- "$2"; }
pid_of() { tr -d '[:space:]' <"$CLUSTER/run/$1.pid"; }
stop_daemon() { local pid; pid=$(pid_of "$1"); kill "$pid"; within 20 eval "! kill -0 $pid 2>/dev/null"; }
start_slurmdbd() { MYSQL_UNIX_PORT=$CLUSTER/run/db.sock setsid slurmdbd 3>&- >/dev/null 2>&1; }
PATH=$PATH:/usr/sbin:/sbin

@test "a rank is killed: 67 or its signal, said to the user and in sacct" {
    start_hanging
    local job pid
    job=$(job_of loop)
    for pid in $(step_processes | sed -n "s|^\([0-9]*\) $looper$|\1|p"); do
        ! grep -qsz '^RANK=4$' "/proc/$pid/environ" || kill -KILL "$pid"
    done
    ended_with 67 137
    grep -q '^prism: rank 4 ' loop.err
    within 20 in_database "$job" '^FAILED.*state=ended.*exit_code=(67|137),exit_origin='
    nothing_left
}

@test "slurmstepd is killed: the step ends, its allocation with it" {
    start_hanging
    local job pid
    job=$(job_of loop)
    for pid in $(pgrep -f "^slurmstepd: \[$job\.0\]"); do
        ! grep -qsz "ONEBOX_DIR=$CLUSTER" "/proc/$pid/environ" || break
    done
    kill -KILL "$pid"
    ended_with 68 137 143
    grep -q 'slurmstepd of node [01] is gone' loop.err || grep -q 'prismd has ended' loop.err || last_comment | grep -q 'exit_code=68,exit_origin=prism'
    nothing_left
}

@test "slurmctld is restarted in the middle of a run" {
    trace=slow emulated auto 40 60 &
    run=$!
    sleep 1
    stop_daemon slurmctld
    setsid slurmctld 3>&- >/dev/null 2>&1
    ended_with 0
    grep -q '^rank 4 done' loop.out
    last_comment | grep -q 'state=ended.*exit_code=0,exit_origin=program' || { last_comment; false; }
    nothing_left
}

@test "slurmdbd is down for the whole run: accounted once it is back" {
    stop_daemon slurmdbd
    emulated emulate || { cat loop.err; start_slurmdbd; false; }
    grep -q '^rank 0 done' loop.out
    local job
    job=$(last_comment | cut -d' ' -f1)
    start_slurmdbd
    within 40 in_database "$job" '^COMPLETED.*prism:world=8.*exit_code=0'
    run=
}

@test "a plugin that is no library, or not there: jobs run" {
    local line
    line=$(cat "$CLUSTER/etc/plugstack.conf")
    head -c 5000 /dev/urandom >garbage.so
    echo "optional $WORK/garbage.so libdir=/x bindir=/x" >"$CLUSTER/etc/plugstack.conf"
    run timeout 30 srun -N2 --exclude=node2 hostname 3>&-
    [ "$status" -eq 0 ]
    [ "$(grep -cx "$(hostname)" <<<"$output")" -eq 2 ]
    echo "optional $WORK/nowhere.so" >"$CLUSTER/etc/plugstack.conf"
    run timeout 30 srun -N2 --exclude=node2 hostname 3>&-
    [ "$status" -eq 0 ]
    echo "$line" >"$CLUSTER/etc/plugstack.conf"
    run timeout 30 sinfo -h -N -o %t 3>&-
    has_not 'drain|down'
    run=
}

@test "prismd of another version than the plugin: 68 and both versions" {
    local line
    line=$(cat "$CLUSTER/etc/plugstack.conf")
    sed 's/0\.1\.0/0.0.9/g' "$PRISM_BUILD/lib/slurm/spank_prism.so" >spank_prism.so
    sed "s|[^ ]*/spank_prism.so|$WORK/spank_prism.so|" <<<"$line" >"$CLUSTER/etc/plugstack.conf"
    emulated emulate &
    run=$!
    ended_with 68
    echo "$line" >"$CLUSTER/etc/plugstack.conf"
    grep -qE "^prism: .*/prismd is Prism 0.1.0, this node's Slurm plugin is 0.0.9: install one version" loop.err
    nothing_left
}

@test "setuid programs do not load the library" {
    [ "$(id -u)" -eq 0 ] || skip "only root can make a program of another user's"
    cp "$(command -v cat)" cat
    chown nobody cat
    chmod 4755 cat
    chmod 755 "$WORK"
    run timeout 60 srun --exclude=node2 --prism-emulate=8 --prism-assistants=0 "$WORK/cat" /proc/self/maps 3>&-
    [ "$status" -eq 0 ]
    says "$WORK/cat"
    has_not 'libprism'
    run=
}

@test "the time limit: TIMEOUT, and what had been reached is in the database" {
    within 50 in_database "$LATE" '^TIMEOUT.*prism:world=8.*state=(emulate|ended),iterations=[1-9]' || {
        sacct -X -n -P -j "$LATE" -o State,End,Comment
        squeue -h -t all -j "$LATE" -o '%T %e %k'
        cat late/late.out
        false
    }
    nothing_left
}
