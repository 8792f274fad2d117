# The options in srun, sbatch and salloc, the rewritten allocation, and what the step's task gets to see.
# A stand-in for prismd and libprism.so, which tells what it was started with, takes the real ones' place: this is about
# Slurm's side only.

load helper

setup_file() {
    [ -z "$(lacks_plugins)" ] || return 0
    # The caller's own settings would count as the user's.
    unset PRISM_EMULATE PRISM_SANDBOX PRISM_ASSISTANTS PRISM_PHASE PRISM_TRACE PRISM_NODES PRISM_DEVICES_PER_NODE
    STANDIN=$(mktemp -d)
    export STANDIN
    mkdir -p "$STANDIN/lib" "$STANDIN/bin"
    cat >"$STANDIN/launch.c" <<'E'
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void launch(int argc, char **argv, char **env)
{
    const char *pid = getenv("PRISM_LAUNCH_PID");
    if (!getenv("PRISM_LAUNCH") || !pid || atoi(pid) != (int)getpid())
        return;
    unsetenv("PRISM_LAUNCH");
    argv[0] = getenv("PRISM_PRISMD");
    execv(argv[0], argv);
    _exit(68);
}
E
    gcc -shared -fPIC -o "$STANDIN/lib/libprism.so" "$STANDIN/launch.c"
    printf '#!/bin/bash\necho "standin: $*"\nexec env\n' >"$STANDIN/bin/prismd"
    chmod 755 "$STANDIN/bin/prismd"
    cluster_start --plugins "$PRISM_BUILD/lib/slurm" --libdir "$STANDIN/lib" --bindir "$STANDIN/bin"
    cd "$STANDIN"
}

teardown_file() {
    cluster_stop
    [ -z "${STANDIN:-}" ] || rm -rf "$STANDIN"
}

setup() {
    local reason
    reason=$(lacks_plugins)
    [ -z "$reason" ] || skip "$reason"
    cd "$STANDIN"
}

@test "only what Slurm looks up is exported, and nothing of CUDA or NCCL is linked" {
    run nm -D --defined-only "$PRISM_BUILD/lib/slurm/spank_prism.so"
    [ "$status" -eq 0 ]
    [ -z "$(awk '{print $3}' <<<"$output" | grep -vE '^(slurm_spank_[a-z_]+|plugin_(name|type|version))$')" ]
    run nm -D --defined-only "$PRISM_BUILD/lib/slurm/cli_filter_prism.so"
    [ "$status" -eq 0 ]
    [ -z "$(awk '{print $3}' <<<"$output" | grep -vE '^(cli_filter_p_[a-z_]+|init|fini|plugin_(name|type|version))$')" ]
    run readelf -d "$PRISM_BUILD/lib/slurm/spank_prism.so" "$PRISM_BUILD/lib/slurm/cli_filter_prism.so"
    has_not 'cuda|nccl|pmix'
}

@test "srun, sbatch and salloc show the options" {
    local program option
    for program in srun sbatch salloc; do
        run inside $program --help
        for option in emulate sandbox assistants phase trace gpus-per-node layout fold slices iterations payload network scratch on-divergence; do
            says "--prism-$option"
        done
    done
}

@test "bad values end with 255 and one line that says what is allowed, and submit nothing" {
    local before
    inside srun true
    before=$(last_job)
    refused() {
        local expected=$1
        shift
        run inside "$@"
        [ "$status" -eq 255 ] || { echo "$* ended with $status: $output"; return 1; }
        says "$expected"
    }
    refused "--prism-emulate=x: 'x' is not a number: 0 to 10000000 is allowed" srun --prism-emulate=x true
    refused "--prism-emulate=-3" srun --prism-emulate=-3 true
    refused "out of range" srun --prism-emulate=10000001 true
    refused "13 ranks are not a multiple of 8 GPUs a node" srun --prism-emulate=13 true
    refused "64 ranks are not 3 nodes (-N) x 8 GPUs" srun -N3 --prism-emulate=64 true
    refused "give -N, -n or --gpus-per-node" srun --prism-emulate true
    refused "rank 64 is outside the world: ranks 0 to 63 are allowed" srun --prism-sandbox=64 --prism-emulate=64 true
    refused "rank 3 is listed twice" srun --prism-emulate=64 --prism-sandbox=3,1-4 true
    refused "'' is neither a rank nor a range" srun --prism-emulate=64 --prism-sandbox=1,,2 true
    refused "--prism-assistants=two" srun --prism-emulate=64 --prism-assistants=two true
    refused "one of auto, capture, calibrate, emulate is allowed" srun --prism-emulate=64 --prism-phase=none true
    refused "needs --prism-layout" srun --prism-emulate=64 --prism-fold=dp true
    refused "has 32 ranks, the emulated job 64" srun --prism-emulate=64 --prism-layout=tp:8,dp:4 true
    refused "out of range" sbatch --prism-emulate=10000001 --wrap true
    refused "rank 64 is outside the world" sbatch --prism-sandbox=64 --prism-emulate=64 --wrap true
    refused "'x' is not a number" salloc --prism-emulate=x true
    PRISM_EMULATE=64 PRISM_SANDBOX=77 refused "PRISM_SANDBOX=77: rank 77 is outside the world" srun true
    PRISM_EMULATE=many refused "PRISM_EMULATE=many: 'many' is not a number" srun true
    PRISM_NODES=none refused "PRISM_NODES: 'none' is not a number" srun --prism-emulate=64 true
    [ "$(last_job)" = "$before" ]
}

@test "srun: small allocation, prismd in the program's place, logical shape in the variables" {
    run inside srun --prism-emulate=64 --prism-sandbox=0 true --flag "two words"
    [ "$status" -eq 0 ]
    has "standin: --flag two words"
    has SLURM_NNODES=1
    has SLURM_NTASKS=1
    has CUDA_VISIBLE_DEVICES=0,1
    has PRISM_EMULATE=64
    has PRISM_WORLD=64
    has PRISM_LOGICAL_NODES=8
    has PRISM_GPUS_PER_NODE=8
    has PRISM_SANDBOX=0
    has "PRISM_TRACE=$STANDIN/prism-trace/true"
    has PRISM_NODES=1
    has PRISM_NODE_ID=0
    has PRISM_NODELIST=node0
    has "PRISM_PRISMD=$STANDIN/bin/prismd"
    has "PRISM_LIBRARY=$STANDIN/lib/libprism.so"
    has "LD_PRELOAD=$STANDIN/lib/libprism.so"
    says "64 ranks (8 nodes x 8 GPUs) will be emulated on 1 x 2 GPUs"
    grep -qE '^PRISM_STEP_ID=[0-9]+\.0$' <<<"$output"
    has_not '^SLURM_PRISM='
    has SOFTGPU_NODE=0
}

@test "srun: the user's LD_PRELOAD stays behind ours" {
    LD_PRELOAD=libm.so.6 run inside srun --prism-emulate=8 true
    has "LD_PRELOAD=$STANDIN/lib/libprism.so:libm.so.6"
}

@test "srun: size from the request, devices from sandbox ranks and assistants, over several nodes" {
    run inside srun -N1024 -n8192 --gpus-per-node=8 --prism-emulate --prism-sandbox=0-7 --prism-assistants=4 true
    [ "$(grep -c '^standin:' <<<"$output")" -eq 2 ]
    has PRISM_EMULATE=8192
    has PRISM_NODES=2
    has PRISM_NODE_ID=1
    has CUDA_VISIBLE_DEVICES=0,1,2,3,4,5
    has SOFTGPU_NODE=1
}

@test "srun: PRISM_NODES and PRISM_DEVICES_PER_NODE force the real shape" {
    PRISM_NODES=4 PRISM_DEVICES_PER_NODE=2 run inside srun --prism-emulate=64 true
    [ "$(grep -c '^standin:' <<<"$output")" -eq 4 ]
    has PRISM_NODELIST='node[0-3]'
    has CUDA_VISIBLE_DEVICES=0,1
}

@test "srun: variables instead of options; the command line beats them" {
    PRISM_EMULATE=64 PRISM_SANDBOX=5 PRISM_PHASE=capture run inside srun --prism-sandbox=6 true
    has PRISM_EMULATE=64
    has PRISM_SANDBOX=6
    has PRISM_PHASE=capture
}

@test "srun --export=NONE loses nothing" {
    export MINE=1 PRISM_STALL_SECONDS=7
    run inside srun --export=NONE --prism-emulate=64 --prism-payload=control /bin/true
    has_not '^MINE='
    has PRISM_EMULATE=64
    has PRISM_PAYLOAD=control
    has PRISM_STALL_SECONDS=7
    has "LD_PRELOAD=$STANDIN/lib/libprism.so"
}

@test "sbatch: #SBATCH lines reach the steps, nothing is loaded into the script itself, --prism-emulate=0 is a plain step" {
    cat >job.sh <<'E'
#!/bin/bash
#SBATCH --prism-emulate -N 16 --ntasks-per-node=8 --gpus-per-node=8
#SBATCH --prism-sandbox=0,100 --comment=mine
#SBATCH --output=job.out
echo "script LD_PRELOAD=${LD_PRELOAD:-} nodes=$SLURM_JOB_NUM_NODES world=$PRISM_WORLD"
echo == emulated
srun true
echo == size of its own
srun --prism-emulate=64 --prism-sandbox=1 true
echo == smaller
srun --prism-emulate=64 true
echo == plain
srun --prism-emulate=0 env
E
    run inside sbatch --wait job.sh
    [ "$status" -eq 0 ]
    run cat job.out
    has "script LD_PRELOAD= nodes=16 world=128"
    [ "$(grep -c '^standin:' job.out)" -eq 3 ] || { cat job.out; false; }
    output=$(sed -n '/^== emulated/,/^== size/p' job.out)
    has PRISM_EMULATE=128
    has PRISM_LOGICAL_NODES=16
    has PRISM_SANDBOX=0,100
    has CUDA_VISIBLE_DEVICES=0,1,2,3
    output=$(sed -n '/^== size/,/^== smaller/p' job.out)
    has PRISM_EMULATE=64
    has PRISM_SANDBOX=1
    # The job's sandbox ranks are those of another world.
    output=$(sed -n '/^== smaller/,/^== plain/p' job.out)
    has PRISM_EMULATE=64
    has_not '^PRISM_SANDBOX='
    output=$(sed -n '/^== plain/,$p' job.out)
    has SLURM_NTASKS=1
    has_not '^(LD_PRELOAD|PRISM_LAUNCH|SLURM_PRISM|PRISM_STEP_ID)'
    # slurmctld tells the database every five seconds.
    await accounted '^job.sh.COMPLETED'
    run inside sacct -X -n -P -o JobName,Comment,AllocTRES
    says 'job.sh|mine; prism:world=128,nodes=16,gpus_per_node=8,devices=4,sandbox_ranks=2,sandbox=0+100,phase=auto|'
    says 'gres/gpu=4,license/prism_gpu=128,license/prism_rank=128,node=1'
}

@test "salloc: the shell's steps are emulated; inside an allocation of one's own, too" {
    run inside salloc -N16 -n128 --prism-emulate srun true
    [ "$status" -eq 0 ]
    has PRISM_EMULATE=128
    has PRISM_NODES=1
    run inside salloc -N2 --gpus-per-node=4 srun --prism-emulate=64 true
    [ "$(grep -c '^standin:' <<<"$output")" -eq 2 ]
    has PRISM_NODES=2
    has CUDA_VISIBLE_DEVICES=0,1,2,3
}

@test "steps without the options notice nothing" {
    run inside srun -N2 -n4 --gpus-per-node=1 env
    [ "$status" -eq 0 ]
    [ "$(grep -c '^SLURM_PROCID=' <<<"$output")" -eq 4 ]
    has_not '^(LD_PRELOAD|PRISM_(EMULATE|LAUNCH|NODES|STEP_ID|WORLD)|SLURM_PRISM)'
    has_not 'prism:'
    # Stray settings, wrong ones too, are no reason to refuse a job that does not ask for emulation.
    PRISM_PHASE=nonsense PRISM_SANDBOX=x run inside srun hostname
    [ "$status" -eq 0 ]
    has_not 'prism:'
    PRISM_EMULATE=0 run inside srun sh -c 'echo "preload <$LD_PRELOAD>"'
    says 'preload <'
    has_not libprism
    run inside srun --prism-sandbox=3 hostname
    [ "$status" -eq 0 ]
    says "--prism-sandbox does nothing without --prism-emulate"
}

@test "the program's exit code comes through" {
    printf '#!/bin/sh\nexit 23\n' >exit23
    chmod 755 exit23
    mv bin/prismd bin/prismd.aside
    cp exit23 bin/prismd
    run inside srun --prism-emulate=64 true
    mv bin/prismd.aside bin/prismd
    [ "$status" -eq 23 ]
}

@test "a node without Prism says so and runs the program as it is" {
    mv lib/libprism.so lib/aside
    run inside srun --prism-emulate=64 env
    mv lib/aside lib/libprism.so
    [ "$status" -eq 0 ]
    says "this node lacks $STANDIN/lib/libprism.so"
    has_not '^(LD_PRELOAD|PRISM_LAUNCH=)'
}

@test "a plugin that is no library, or not there: jobs run" {
    local line
    line=$(cat "$CLUSTER/etc/plugstack.conf")
    head -c 5000 /dev/urandom >garbage.so
    for each in "$STANDIN/garbage.so libdir=/x bindir=/x" "$STANDIN/nowhere.so"; do
        echo "optional $each" >"$CLUSTER/etc/plugstack.conf"
        run inside srun -N2 hostname
        [ "$status" -eq 0 ]
        [ "$(grep -cx "$(hostname)" <<<"$output")" -eq 2 ]
    done
    echo "$line" >"$CLUSTER/etc/plugstack.conf"
    # Not so where slurm.conf names a plugin that is not there: that is Slurm's, and why docs/slurm.md has the files first.
    sed 's/^PluginDir=\([^:]*\):.*/PluginDir=\1/' "$CLUSTER/etc/slurm.conf" >"$CLUSTER/etc/lacks.conf"
    run inside env SLURM_CONF="$CLUSTER/etc/lacks.conf" srun hostname
    [ "$status" -ne 0 ]
    says "cannot find cli_filter plugin for cli_filter/prism"
    run inside sinfo -h -N -o %t
    has_not 'drain|down'
}

@test "a wrong plugstack line turns Prism off with one message, and jobs run" {
    local line
    line=$(cat "$CLUSTER/etc/plugstack.conf")
    echo "$line colour=blue" >"$CLUSTER/etc/plugstack.conf"
    run inside srun hostname
    [ "$status" -eq 0 ]
    says "are allowed, not colour=blue; Prism is off"
    [ "$(grep -c 'colour=blue' <<<"$output")" -eq 1 ]
    run inside srun --prism-emulate=64 hostname
    [ "$status" -ne 0 ]
    says "unrecognized option"
    PRISM_EMULATE=64 run inside srun -N2 hostname
    [ "$status" -eq 0 ]
    says "PRISM_EMULATE does nothing: spank_prism.so is not in plugstack.conf, or off"
    echo "$line" >"$CLUSTER/etc/plugstack.conf"
    run inside srun --prism-emulate=8 true
    [ "$status" -eq 0 ]
    run inside sinfo -h -N -o %t
    has_not 'drain|down'
}
