# common.bash - what the system tests of `prism run` share. Each test works in a folder of its own on software GPUs and
# must leave no process and no file in /dev/shm. Limits are for what hangs: several times what a busy machine needs.

PRISM_BUILD=${PRISM_BUILD:-$(cd "$BATS_TEST_DIRNAME/../../build/release" && pwd)}
PRISM_SOURCE=${PRISM_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
prism=$PRISM_BUILD/bin/prism
moetrain=$PRISM_BUILD/bin/moetrain
looper=$PRISM_BUILD/test/looper
launch=$PRISM_SOURCE/contrib/moetrain/launch.sh

common_setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    local name
    for name in $(compgen -e | grep -E '^(PRISM_|SLURM_|SOFTGPU_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_)'); do
        case $name in PRISM_BUILD | PRISM_SOURCE | PRISM_TEST_PYTHONS) ;; *) unset "$name" ;; esac
    done
    export LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu
    export SOFTGPU_DIR=$BATS_TEST_TMPDIR/softgpu SOFTGPU_TIME_SCALE=0.05
    mkdir -m 700 "$SOFTGPU_DIR"
    # The default profile of the software GPUs: measuring takes half a minute, and doctor.bats does it.
    export PRISM_NETWORK=$PRISM_SOURCE/tests/fixtures/network.json
    # Every process of this test carries this in its environment.
    export PRISM_TEST_MARK=mark-$$-$BATS_TEST_NUMBER-$RANDOM
    ls -A /dev/shm | sort >"$BATS_TEST_TMPDIR/.shm-before"
}

# Processes of this test other than the shells of bats: "pid command line".
our_processes() {
    local environ pid line
    for environ in $(grep -lsaF "PRISM_TEST_MARK=$PRISM_TEST_MARK" /proc/[0-9]*/environ); do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        grep -qsE '^State:[[:space:]]+Z' "/proc/$pid/status" && continue
        line=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")
        case $line in
            *bats* | '' | grep* | ls*) ;;
            *) echo "$pid $line" ;;
        esac
    done
}

# Within half a minute of the end: no process, nothing new in /dev/shm.
nothing_left() {
    local left new i
    for i in $(seq 150); do
        left=$(our_processes)
        new=$(ls -A /dev/shm | sort | comm -13 "$BATS_TEST_TMPDIR/.shm-before" -)
        [ -z "$left$new" ] && return 0
        sleep 0.2
    done
    echo "left behind: processes: $left; in /dev/shm: $new"
    return 1
}

common_teardown() {
    local pid rest
    our_processes | while read -r pid rest; do
        kill -KILL "$pid" 2>/dev/null
    done
    return 0
}

# Run with standard error in $errors and standard output in $output, status in $status. For one-line checks.
run_prism() {
    errors=
    status=0
    output=$(timeout "${LIMIT:-300}" "$prism" "$@" 2>"$BATS_TEST_TMPDIR/.stderr" </dev/null) || status=$?
    errors=$(cat "$BATS_TEST_TMPDIR/.stderr")
}

# The last run_prism ended with this code and said something that matches this pattern.
refused() {
    if [ "$status" -ne "$1" ] || ! grep -qE -- "$2" <<<"$errors"; then
        echo "exit code $status (expected $1), standard error (expected /$2/):"
        echo "$errors"
        return 1
    fi
}

# absent REGEX FILE...: no line of these files, which are there, matches; - is standard input. (What begins with ! cannot
# fail a bats test.)
absent() {
    local expression=$1 found=0
    shift
    grep -HnE -e "$expression" "$@" || found=$?
    [ "$found" -eq 1 ] || { echo "'$expression' found, or no such file: $*"; return 1; }
}

# trace.json as Prism wrote it in an earlier version.   earlier_manifest TRACE 1|2
earlier_manifest() {
    python3 -c '
import json, sys
path, version = sys.argv[1] + "/trace.json", int(sys.argv[2])
m = json.load(open(path))
m["version"] = version
for name in ["files", "checksum"] + ["payload"] * (version < 2):
    m.pop(name, None)
json.dump(m, open(path, "w"), indent=2)' "$1" "$2"
}

one_line() {
    [ "$(wc -l <<<"$errors")" -eq 1 ] || { echo "more than one line: $errors"; return 1; }
}

# looper through `prism run`: looper_run PHASE [ITERATIONS [MILLISECONDS]] → world 4, sandbox 0,2, trace ./trace.
looper_run() {
    run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace --phase="$1" \
        -- "$looper" fault "${2:-6}" "${3:-20}"
}

# Start a command in a session of its own, with SIGINT as from a terminal (background jobs of a shell ignore it).
# Sets $started to its pid (also its process group).
start_foreground() {
    python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
os.execvp(sys.argv[1], sys.argv[1:])' "$@" >"$BATS_TEST_TMPDIR/.stdout" 2>"$BATS_TEST_TMPDIR/.stderr" </dev/null 3>&- &
    started=$!
}

# Wait until the process of a rank runs, at most two minutes; prints its pid.   rank_pid RANK
rank_pid() {
    local i pid until=$((SECONDS + 120))
    while [ "$SECONDS" -lt "$until" ]; do
        # Only programs that a test runs as ranks: reading every process's environment takes seconds on a busy machine.
        # One name a call: pgrep warns of patterns longer than a process's name can be.
        for pid in $(for i in looper moetrain silent; do pgrep -x "$i"; done); do
            if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" |
                grep -cx -e "RANK=$1" -e "PRISM_TEST_MARK=$PRISM_TEST_MARK" | grep -qx 2; then
                echo "$pid"
                return 0
            fi
        done
        sleep 0.1
    done
    echo "rank $1 never started: $(cat "$BATS_TEST_TMPDIR/.stderr")" >&2
    return 1
}

# Sets code to the exit code of $started, "none" if it still runs after so many seconds.   await_started SECONDS
await_started() {
    local until=$((SECONDS + $1))
    code=none
    while [ "$SECONDS" -lt "$until" ]; do
        if ! kill -0 "$started" 2>/dev/null || grep -qsE '^State:[[:space:]]+Z' "/proc/$started/status"; then
            code=0
            wait "$started" 2>/dev/null || code=$?
            return 0
        fi
        sleep 0.2
    done
}
