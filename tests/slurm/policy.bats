# The site's limits for emulated jobs in slurmctld (job_submit_prism.so), with their messages; licences and AdminComment;
# a broken configuration; and what a job without Prism's options notices of all that.

load helper

setup_file() {
    [ -z "$(lacks_plugins)" ] || return 0
    unset PRISM_EMULATE PRISM_SANDBOX PRISM_ASSISTANTS PRISM_PHASE PRISM_TRACE PRISM_NODES PRISM_DEVICES_PER_NODE
    WORK=$(mktemp -d)
    export WORK
    mkdir "$WORK/lib" "$WORK/bin"
    # Nothing is emulated here: the program itself runs.
    echo | gcc -shared -fPIC -x c -o "$WORK/lib/libprism.so" -
    printf '#!/bin/sh\nexit 1\n' >"$WORK/bin/prismd"
    chmod 755 "$WORK/bin/prismd"
    cluster_start --nodes 4 --plugins "$PRISM_BUILD/lib/slurm" --libdir "$WORK/lib" --bindir "$WORK/bin"
    conf=$CLUSTER/etc/prism.conf
    # A client whose slurm.conf lacks the filter, and one that claims to have had it.
    sed 's/^CliFilterPlugins.*//' "$CLUSTER/etc/slurm.conf" >"$CLUSTER/etc/bare.conf"
    printf '#!/bin/sh\nexport PRISM_FILTERED=$$ SLURM_CONF=%s\nexec "$@"\n' "$CLUSTER/etc/bare.conf" >"$WORK/forged"
    chmod 755 "$WORK/forged"
    export conf
    inside scontrol create PartitionName=debug Nodes=ALL State=UP MaxTime=INFINITE
    inside sacctmgr -i add qos emulation
    inside sacctmgr -i modify user "$(id -un)" set qos+=emulation
    cd "$WORK"
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_plugins)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    rm -f "$conf"
}

policy() { printf '[policy]\n' >"$conf"; printf '%s\n' "$@" >>"$conf"; }

# refused TEXT COMMAND...: nothing is submitted
refused() {
    local text=$1 before
    shift
    before=$(last_job)
    run inside "$@"
    [ "$status" -ne 0 ] || { echo "$* was not refused"; return 1; }
    says "$text"
    [ "$(last_job)" = "$before" ]
}
field() { inside scontrol show job "$(last_job)" | tr -s ' ' '\n' | sed -n "s/^$1=//p"; }

@test "the plugin exports what Slurm looks up, and links nothing of CUDA, NCCL or PMIx" {
    run nm -D --defined-only "$PRISM_BUILD/lib/slurm/job_submit_prism.so"
    [ "$status" -eq 0 ]
    [ -z "$(awk '{print $3}' <<<"$output" | grep -vE '^(job_submit|job_modify|init|fini|plugin_(name|type|version))$')" ]
    run readelf -d "$PRISM_BUILD/lib/slurm/job_submit_prism.so"
    has_not 'cuda|nccl|pmix|libconfig|jansson'
}

@test "licences beside the user's own, and AdminComment" {
    run inside srun -L prism_rank:1 --prism-emulate=64 --prism-sandbox=0,9 --prism-assistants=1 true
    [ "$status" -eq 0 ]
    [ "$(field Licenses)" = prism_rank:64,prism_gpu:64 ]
    [ "$(field AdminComment)" = "prism:world=64,nodes=8,gpus_per_node=8,devices=3,sandbox_ranks=2,sandbox=0+9,assistants=1,phase=auto" ]
    PRISM_EMULATE=32 run inside sbatch --wait -o /dev/null --wrap 'true'
    [ "$status" -eq 0 ]
    [ "$(field Licenses)" = prism_rank:32,prism_gpu:32 ]
    policy 'licenses = none'
    inside srun --prism-emulate=64 true
    [ "$(field Licenses)" = '(null)' ]
}

@test "largest world, most GPUs, licences that there are" {
    policy 'max-ranks = 64' 'max-gpus = 4'
    inside srun --prism-emulate=64 --prism-sandbox=0-3 --prism-assistants=0 true
    refused "prism: 128 ranks are asked for, 64 are the most that this site allows to emulate" srun --prism-emulate=128 true
    refused "prism: 128 ranks" sbatch --prism-emulate=128 --wrap true
    refused "prism: 128 ranks" salloc --prism-emulate=128 true
    refused "prism: 8 GPUs are asked for, 4 are the most" srun --prism-emulate=64 --prism-sandbox=0-3 true
    PRISM_NODES=3 PRISM_DEVICES_PER_NODE=2 refused "prism: 6 GPUs are asked for" srun --prism-emulate=64 true
    # Without the filter the world is not known.
    refused "prism: this site limits emulated jobs, and the request does not tell its ranks" \
        env SLURM_CONF="$CLUSTER/etc/bare.conf" sbatch --prism-emulate --wrap true
    rm -f "$conf"
    refused "1000001 ranks are asked for, 1000000 prism_rank licences are all" \
        srun --prism-gpus-per-node=1 --prism-emulate=1000001 true
}

@test "users, accounts, partitions" {
    policy 'users = somebody' 'partitions = main'
    refused "prism: emulation is not allowed for user $(id -un) on this cluster" srun --prism-emulate=8 true
    policy 'users = somebody' 'accounts = prism, other'
    refused "it is for the accounts prism,other (choose one with --account)" srun --prism-emulate=8 true
    inside srun --account=prism --prism-emulate=8 true
    # Who submits counts, not who runs slurmctld.
    if [ "$(id -u)" -eq 0 ]; then
        policy 'users = root'
        inside srun --prism-emulate=8 true
        (cd / && refused "prism: emulation is not allowed for user nobody" runuser -u nobody -- srun --prism-emulate=8 true)
        (cd / && inside runuser -u nobody -- srun true)
    fi
    policy "users = somebody,$(id -un)" 'partitions = debug'
    refused "prism: emulation is not allowed in partition main: use --partition=debug" srun -p main --prism-emulate=8 true
    refused "not allowed in partition main" srun -p debug,main --prism-emulate=8 true
    inside srun -p debug --prism-emulate=8 true
    # Without a word of the user's it goes where it may.
    inside srun --prism-emulate=8 true
    [ "$(field Partition)" = debug ]
}

@test "default partition, QOS and reservation, where the user names none" {
    inside scontrol create ReservationName=prism StartTime=now Duration=60 Nodes=node3 Users="$(id -un)"
    policy 'default-partition = debug' 'default-qos = emulation' 'default-reservation = prism'
    inside srun --prism-emulate=8 true
    [ "$(field Partition)" = debug ]
    [ "$(field QOS)" = emulation ]
    [ "$(field Reservation)" = prism ]
    inside srun -p main --qos=normal --prism-emulate=8 true
    [ "$(field Partition)" = main ]
    [ "$(field QOS)" = normal ]
    inside srun true
    [ "$(field Partition)" = main ]
    [ -z "$(field Reservation)" ]
    inside scontrol delete ReservationName=prism
}

# step SALLOC_ARGUMENTS... -- SRUN_ARGUMENTS...: a step in an allocation, by itself in one of eight GPUs
plain=(-N2 --gpus-per-node=4)
step() {
    local allocation=()
    while [ "$1" != -- ]; do allocation+=("$1"); shift; done
    shift
    [ "${#allocation[@]}" -gt 0 ] || allocation=("${plain[@]}")
    run inside salloc "${allocation[@]}" srun "$@" echo ran
}
step_runs() {
    step "$@"
    [ "$status" -eq 0 ]
    has ran
}
step_refused() { # TEXT step's arguments
    local text=$1
    shift
    step "$@"
    [ "$status" -eq 255 ] || { echo "$* ended with $status: $output"; return 1; }
    says "$text"
    has_not '^ran$'
}

@test "a step in an allocation that was asked for plainly, or smaller, keeps to the same" {
    policy 'max-ranks = 64'
    step_refused "prism: 128 ranks are asked for, 64 are the most that this site allows to emulate" -- --prism-emulate=128
    step_refused "prism: 128 ranks" --prism-emulate=64 -- --prism-emulate=128
    step_runs -- --prism-emulate=64
    policy 'max-gpus = 7'
    step_refused "prism: 8 GPUs are asked for, 7 are the most" -- --prism-emulate=64
    policy 'max-gpus = 8'
    step_runs -- --prism-emulate=64
    policy 'users = somebody'
    step_refused "prism: emulation is not allowed for user $(id -un)" -- --prism-emulate=8
    policy 'accounts = other'
    step_refused "with account prism: it is for the accounts other" -- --prism-emulate=8
    policy 'accounts = prism'
    step_runs -- --prism-emulate=8
    policy 'partitions = debug'
    step_refused "prism: emulation is not allowed in partition main: use --partition=debug" -- --prism-emulate=8
    step_runs -p debug "${plain[@]}" -- --prism-emulate=8
    step_runs -- --prism-emulate=0
    policy 'plain-jobs = refuse'
    step_refused "prism: this site emulates only in jobs that were asked for with --prism-emulate" -- --prism-emulate=8
    step_runs --prism-emulate=8 -- --prism-emulate=8
    step_runs -- --prism-sandbox=0
    policy 'max-ranks = lots'
    step_refused "emulation is off on this cluster until its administrators mend $conf: line 2" -- --prism-emulate=8
    step_runs -- -n1
}

@test "variables of the user's do not change what a step's job is; --jobid from outside, too" {
    policy 'partitions = debug' 'accounts = other'
    run inside salloc -N1 env SLURM_JOB_PARTITION=debug SLURM_JOB_ACCOUNT=other PRISM_CONFIG=/dev/null srun --prism-emulate=8 echo ran
    [ "$status" -eq 255 ]
    says "prism: emulation is not allowed for user"
    has_not '^ran$'
    run inside salloc -N1 env -u SLURM_JOB_ID bash -c 'srun --jobid=$SLURM_JOBID --prism-emulate=8 echo ran'
    [ "$status" -eq 255 ]
    says "prism: emulation is not allowed for user"
    has_not '^ran$'
}

@test "a broken prism.conf refuses emulated jobs with its line, and no others notice" {
    policy 'max-ranks = lots'
    refused "prism: emulation is off on this cluster until its administrators mend $conf: line 2: max-ranks: 'lots' is not a number" \
        srun --prism-emulate=8 true
    run inside srun -N2 hostname
    [ "$status" -eq 0 ]
    has_not 'prism'
    [ "$(field AdminComment)" = '' ]
    head -c 70000 /dev/urandom >"$conf"
    refused "than 65536 bytes" srun --prism-emulate=8 true
    inside srun true
    rm "$conf"
    mkdir "$conf"
    refused "$conf" srun --prism-emulate=8 true
    rmdir "$conf"
    inside srun --prism-emulate=8 true
    run inside sinfo -h -N -o %t
    has_not 'drain|down'
}

@test "what users can hand over is refused or ignored, and slurmctld stays" {
    local text
    for text in 'world=1' 'world=64,nodes=8,gpus_per_node=8,sandbox=9-1' "$(head -c 100000 /dev/zero | tr '\0' 9)" '=,=,=' '%s%n%s'; do
        # As a client of their own would: what stands in for cli_filter's result goes to slurmctld as it is.
        refused "prism: the job's shape is malformed" env PRISM_SHAPE="$text" "$WORK/forged" sbatch -o /dev/null --wrap true
    done
    refused "cannot be joined with the emulation's own" sbatch --licenses='a|b' --prism-emulate=8 --wrap true
    inside srun true
    [ "$(timeout 300 "$onebox" status "$CLUSTER" 3>&- | grep -c 'not running')" -eq 0 ]
}
