# helper.bash - a onebox cluster for a bats file. Every Slurm command runs under a time limit: srun waits for ever on a
# node that is not there. Limits are for what hangs: ten times what a busy machine needs, and no test says how long anything takes.
: "${PRISM_SOURCE:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${PRISM_BUILD:=$PRISM_SOURCE/build/release}"
onebox=$PRISM_SOURCE/contrib/onebox/onebox

# Why the tests cannot run here, or nothing. bats 1.8 wants skip in setup, not in setup_file.
lacks_slurm() {
    local program
    for program in munged mariadbd slurmctld slurmd slurmdbd srun; do
        PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null || { echo "$program is not installed"; return; }
    done
}
lacks_plugins() {
    lacks_slurm
    if [ ! -e "$PRISM_BUILD/lib/slurm/spank_prism.so" ]; then
        echo "the Slurm plugins are not built"
    elif readelf -d "$PRISM_BUILD/lib/slurm/spank_prism.so" | grep -qE 'NEEDED.*lib(asan|tsan)'; then
        # Slurm's own programs would have to be built with these as well.
        echo "Slurm cannot load plugins built with this sanitizer"
    fi
}

# What runs jobs for real needs more than the plugins: prints what is not built of that and of the files named.
lacks_program() { # FILE...: below the build folder
    local file
    lacks_plugins
    for file in bin/prismd test/looper lib/libprism.so lib/softgpu/libcuda.so.1 "$@"; do
        [ -e "$PRISM_BUILD/$file" ] || { echo "$file is not built"; return; }
    done
}

# The caller's own settings would count as the user's.
own_environment() {
    local name
    for name in $(compgen -e | grep -E '^(PRISM_|SLURM_|SOFTGPU_|PMIX?_|OMPI_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_|CUDA_)'); do
        case $name in PRISM_BUILD | PRISM_SOURCE) ;; *) unset "$name" ;; esac
    done
}

# The folder $WORK, where we are then; software GPUs that are quick.
work_folder() {
    own_environment
    WORK=$(mktemp -d)
    export WORK SOFTGPU_TIME_SCALE=0.05 PRISM_NETWORK=$PRISM_SOURCE/tests/fixtures/network.json looper=$PRISM_BUILD/test/looper
    cd "$WORK" || return
}

# Sockets lie below it: short. Its name goes into the file's folder, for teardown_file.
cluster_start() {
    CLUSTER=$(mktemp -d /tmp/onebox.XXXXXX)
    export CLUSTER
    timeout 300 "$onebox" start "$CLUSTER" "$@" >&2 3>&-
}
# Of what is built, with software GPUs; this shell becomes its client.
real_cluster() { # onebox arguments...
    cluster_start "$@" --plugins "$PRISM_BUILD/lib/slurm" --libdir "$PRISM_BUILD/lib" --bindir "$PRISM_BUILD/bin" \
        --softgpu "$PRISM_BUILD/lib/softgpu" && eval "$("$onebox" env "$CLUSTER")"
}
cluster_stop() {
    [ -n "${CLUSTER:-}" ] || return 0
    timeout 120 "$onebox" stop "$CLUSTER" 3>&-
    rm -rf "$CLUSTER"
}
inside() { timeout 300 "$onebox" exec "$CLUSTER" -- "$@" 3>&-; }

# Takes away what setup_file has made.
remove_all() {
    cluster_stop
    [ -z "${WORK:-}" ] || rm -rf "$WORK"
}

# Number of the newest job; slurmctld knows at once, the database some seconds later.
last_job() { inside squeue -h -t all -o %i | sort -n | tail -n 1; }

# await COMMAND...: it succeeds at last
await() {
    local end=$((SECONDS + 240))
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "not within the time: $*"; return 1; }
        sleep 0.3
    done
}
# sbatch_wait sbatch arguments...: as sbatch --wait, which looks after 2, 6, 14, 30, 62 ... seconds only. The job's exit code.
# Of a client (real_cluster).
sbatch_wait() {
    local job code
    job=$(timeout 60 sbatch --parsable "$@" 3>&-) || return
    await job_over "$job" || { timeout 60 scancel "$job" 3>&-; return 124; }
    code=$(timeout 60 scontrol -o show job "$job" 3>&- | grep -oE ' ExitCode=[0-9]+' | cut -d= -f2 | sort -n | tail -n 1)
    return "${code:-125}"
}
job_over() { local left; left=$(timeout 60 squeue -h -j "$1" -o %i 3>&-) && [ -z "$left" ]; }
# accounted REGEX: a line NAME|STATE of the database
accounted() { inside sacct -X -n -P -o JobName,State | grep -q -- "$1"; }

# has LINE: $output has exactly this line
has() { grep -qxF -- "$1" <<<"$output" || { echo "no line '$1' in:"; echo "$output"; return 1; }; }
has_not() { ! grep -qE -- "$1" <<<"$output" || { echo "unexpected '$1' in:"; echo "$output"; return 1; }; }
# absent REGEX FILE...: no line of these files, which are there, matches. (What begins with ! cannot fail a bats test.)
absent() {
    local expression=$1 found=0
    shift
    grep -HnE -e "$expression" "$@" || found=$?
    [ $found -eq 1 ] || { echo "'$expression' found, or no such file: $*"; return 1; }
}
says() { grep -qF -- "$1" <<<"$output" || { echo "nothing says '$1' in:"; echo "$output"; return 1; }; }
