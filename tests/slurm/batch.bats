# Production job scripts, unchanged, on a private Slurm with software GPUs: what the script sees, its helpers, torchrun, arrays,
# plain steps in between. The jobs are of 4 nodes with 4 GPUs each, emulated on one node.

load helper

setup_file() {
    [ -z "$(lacks_program)" ] || return 0
    work_folder
    mkdir "$WORK/bin"
    printf '#!/usr/bin/env python3\nimport sys\nsys.exit("torchrun itself has run")\n' >"$WORK/bin/torchrun"
    chmod 755 "$WORK/bin/torchrun"
    real_cluster --nodes 2 --gpus 4
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_program | head -n 1)
    [ -z "$reason" ] || skip "$reason"
    mkdir -p "$WORK/$BATS_TEST_NUMBER"
    cd "$WORK/$BATS_TEST_NUMBER"
}

# batch sbatch arguments...: the job's script is standard input, its output goes to ./out; the job's exit code
batch() {
    local code=0
    { echo '#!/bin/bash'; cat; } >job.sh
    sbatch_wait --output=out "$@" job.sh >submitted 2>&1 || code=$?
    output=$(cat out* submitted)
    echo "$output"
    return $code
}
shape=(-N4 --ntasks-per-node=4 --gpus-per-node=4)

@test "script and program see the logical job, Slurm allocates the small one" {
    batch "${shape[@]}" --cpus-per-task=3 --prism-emulate <<'E'
printf 'script %s %s %s %s %s %s %s %s\n' "$SLURM_NNODES" "$SLURM_JOB_NUM_NODES" "$SLURM_NTASKS" "$SLURM_NTASKS_PER_NODE" \
    "$SLURM_TASKS_PER_NODE" "$SLURM_JOB_NODELIST" "$SLURM_GPUS_ON_NODE" "$SLURM_CPUS_PER_TASK"
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
echo "master $MASTER_ADDR of $(scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l)"
srun sh -c 'echo "rank $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID of $SLURM_NTASKS on $SLURM_NNODES $SLURM_CPUS_PER_TASK $SLURM_JOB_NODELIST $SLURMD_NODENAME $(hostname) $(uname -n)"'
squeue -h -j "$SLURM_JOB_ID" -o 'allocated %D'
E
    has "script 4 4 16 4 4(x4) node-prism[0-3] 4 3"
    has "master node-prism0 of 4"
    has "rank 0 0 0 of 16 on 4 3 node-prism[0-3] node-prism0 node-prism0 node-prism0"
    has "rank 13 3 1 of 16 on 4 3 node-prism[0-3] node-prism3 node-prism3 node-prism3"
    has "allocated 1"
    # In the order of ranks.
    diff <(grep -oE '^rank [0-9]+' out) <(seq -f 'rank %.0f' 0 15)
}

@test "helpers run once a task asked for, keep their exit code, leave a note and no trace; then the program is emulated" {
    batch "${shape[@]}" --prism-emulate --prism-trace="$PWD/trace" <<'E'
srun mkdir -p results
srun -N1 -n1 sh -c 'echo single $SLURM_PROCID of $SLURM_NTASKS'
srun --ntasks-per-node=1 sh -c 'echo node $SLURM_NODEID task $SLURM_PROCID of $SLURM_NTASKS'
srun sh -c 'exit $((SLURM_PROCID == 5 ? 7 : SLURM_PROCID == 6 ? 3 : 0))'
echo "helper ended with $?"
srun "$looper" fault 3
echo "program ended with $?"
srun sh -c 'echo after >>after'
srun "$PRISM_BUILD/test/silent-static"
echo "static ended with $?"
E
    has "single 0 of 1"
    has "static ended with 0" # as Slurm starts it, once
    [ "$(grep -c 'nothing to reduce' out)" -eq 1 ]
    [ "$(grep -c '^node . task . of 4$' out)" -eq 4 ]
    has "helper ended with 7"
    has "program ended with 0"
    grep -q '^rank 0 iteration 2 sum' out
    absent '^rank 1 iteration' out
    [ -d results ]
    [ "$(wc -l <after)" -eq 16 ]
    [ "$(grep -c 'nothing to emulate' trace/steps.log)" -eq 5 ]
    grep -q 'sh -c exit .*16 tasks.* exit code 7' trace/steps.log
    grep -q '"complete": *true' trace/trace.json
    [ -z "$(ls -d trace/.step-* 2>/dev/null)" ]
}

@test "a second program of the job has a trace of its own; the second run emulates at once" {
    run_it() {
        batch "${shape[@]}" --prism-emulate <<'E'
srun "$looper" fault 2
srun "$looper" fault 3
E
    }
    run_it
    [ "$(ls -d prism-trace/job.sh* | wc -l)" -eq 2 ]
    run_it
    [ "$(ls -d prism-trace/job.sh* | wc -l)" -eq 2 ]
    absent 'captur|calibrat' out
    grep -q '^rank 0 iteration 2 sum' out
}

@test "torchrun is not run: its program is, with a rank a device; a world of another size is refused" {
    export PATH=$WORK/bin:$PATH
    batch -N4 --ntasks-per-node=1 --gpus-per-node=4 --prism-emulate --prism-sandbox=0,5 --prism-assistants=0 --prism-slices=1 <<'E'
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:29500" --no-python "$looper" fault 3
echo "program ended with $?"
srun bash -c 'torchrun --nnodes=$SLURM_NNODES --nproc-per-node=4 --node-rank $SLURM_NODEID --no-python "$looper" fault 2; exit $?'
echo "wrapped ended with $?"
srun torchrun --nnodes 2 --nproc-per-node 4 --no-python "$looper" fault 9
echo "wrong size ended with $?"
E
    has "program ended with 0"
    has "wrapped ended with 0"
    has_not "torchrun itself"
    grep -q '^rank 0 iteration 2 sum' out
    grep -q '^rank 5 iteration 2 sum' out
    says "torchrun asks for 2 x 4 ranks (--nnodes, --nproc-per-node), the emulated job has 16"
    has "wrong size ended with 64"
}

@test "emulated and plain steps in one job; --export=NONE" {
    batch "${shape[@]}" --prism-emulate --export=NONE <<E
export SOFTGPU_TIME_SCALE=0.05 PRISM_NETWORK=$PRISM_NETWORK
echo "script \$SLURM_NTASKS \$SLURM_JOB_NODELIST"
srun --prism-emulate=0 /bin/sh -c 'echo "plain \$SLURM_NTASKS \$SLURM_JOB_NUM_NODES \$SLURM_JOB_NODELIST \${PRISM_HOSTNAME:-none}"'
srun --prism-emulate=0 -n2 /bin/sh -c 'echo "two \$SLURM_PROCID \${LD_PRELOAD:-none}"'
srun --export=ALL $looper fault 2
E
    has "script 16 node-prism[0-3]"
    [ "$(grep -cE '^plain 1 1 node[01] none$' out)" -eq 1 ]
    has "two 0 none"
    has "two 1 none"
    grep -q '^rank 0 iteration 1 sum' out
}

@test "names of logical nodes resolve in the program, those of no node do not" {
    batch "${shape[@]}" --prism-emulate <<'E'
srun -N2 -n2 --ntasks-per-node=1 python3 -c '
import os, socket
own = socket.gethostname()
assert own == os.uname().nodename == os.environ["SLURMD_NODENAME"], own
listener = socket.create_server((own, 0))
for name in ("node-prism0", "node-prism1"):
    socket.getaddrinfo(name, 80)
    socket.gethostbyname(name)
socket.create_connection((own, listener.getsockname()[1]))
for name in ("node-prism4", "node-prism00"):
    try:
        socket.getaddrinfo(name, 80)
    except socket.gaierror:
        continue
    raise SystemExit(name)
print("resolved", own)'
E
    has "resolved node-prism0"
    has "resolved node-prism1"
}

@test "job arrays: each task has a trace of its own; names with spaces" {
    mkdir "a folder"
    cp "$looper" "a folder/my program"
    batch "${shape[@]}" --prism-emulate --array=0-1 --output=out.%a --job-name="a job" <<'E'
cd "a folder"
srun "./my program" "a fault" "$((SLURM_ARRAY_TASK_ID + 2))"
E
    grep -q '^rank 0 iteration 1 sum' out.0
    grep -q '^rank 0 iteration 2 sum' out.1
    [ -e prism-trace/a_job_0/trace.json ]
    [ -e prism-trace/a_job_1/trace.json ]
}

@test "a program that cannot start ends soon, whatever its size" {
    local code=0
    batch -N128 --ntasks-per-node=8 --gpus-per-node=8 --prism-emulate <<'E' || code=$?
srun sh -c 'echo tried >>tried; exit 9'
exit $?
E
    [ $code -eq 9 ]
    says "no more are started"
    [ "$(wc -l <tried)" -lt 200 ]
    grep -q 'exit code 9' prism-trace/job.sh/steps.log
}

@test "what is not supported is refused with its reason; --test-only works" {
    echo '0-7 hostname' >programs
    run timeout 300 srun --prism-emulate=8 -n8 --multi-prog programs 3>&-
    [ "$status" -eq 255 ]
    says "--multi-prog is not supported"
    run timeout 300 srun --prism-emulate=8 hostname : -n1 hostname 3>&-
    [ "$status" -eq 255 ]
    says "heterogeneous"
    run timeout 300 sbatch --prism-emulate=8 --wrap=hostname : -n1 3>&-
    [ "$status" -ne 0 ]
    says "heterogeneous"
    run timeout 300 sbatch --test-only -N1024 --ntasks-per-node=8 --gpus-per-node=8 --prism-emulate --wrap=hostname 3>&-
    [ "$status" -eq 0 ]
    says "8192 ranks (1024 nodes x 8 GPUs) will be emulated on 1 x 2 GPUs"
    says "to start at"
    run timeout 300 srun --test-only -n64 --gpus-per-node=8 --prism-emulate hostname 3>&-
    [ "$status" -eq 0 ]
}

@test "logical nodes from outside: sbcast reaches where the ranks run, ssh and -w do not know them" {
    batch "${shape[@]}" --prism-emulate <<'E'
echo "broadcast" >file
sbcast -f file "$PWD/copied"
srun -N1 -n1 cat copied
getent hosts node-prism1
echo "getent ended with $?"
srun -w node-prism1 -N1 -n1 hostname
echo "named ended with $?"
srun -x node-prism1 --prism-emulate=0 hostname
echo "excluded ended with $?"
E
    has "broadcast"
    has "getent ended with 2"
    says "--nodelist=node-prism1 names emulated nodes, and a step cannot choose among these"
    has "named ended with 255"
    says "--exclude=node-prism1 names emulated nodes"
    has "excluded ended with 255"
}

shell_of_salloc() {
    run timeout 300 salloc "${shape[@]}" --prism-emulate bash -c '
        echo "shell $SLURM_NTASKS $SLURM_JOB_NUM_NODES $SLURM_JOB_NODELIST"
        srun sh -c "echo task \$SLURM_PROCID of \$SLURM_NTASKS on \$(hostname)"
        srun --prism-emulate=0 sh -c "echo plain \$SLURM_NTASKS \$SLURM_JOB_NUM_NODES"' 3>&-
    [ "$status" -eq 0 ]
    has "shell 16 4 node-prism[0-3]"
    has "task 15 of 16 on node-prism3"
    has "plain 1 1"
}

@test "salloc: its shell sees the logical job" { shell_of_salloc; }

@test "salloc with use_interactive_step: the shell is a step, and no rank" {
    echo 'LaunchParameters=use_interactive_step' >>"$CLUSTER/etc/slurm.conf"
    timeout 120 scontrol reconfigure 3>&-
    # Its shell reads standard input, which its steps must not.
    printf '%s\n' 'echo "shell $SLURM_NTASKS $SLURM_JOB_NODELIST"' \
        'srun sh -c "echo task \$SLURM_PROCID of \$SLURM_NTASKS" </dev/null' 'exit 5' >shell
    run timeout 300 salloc "${shape[@]}" --prism-emulate 3>&- <shell
    sed -i '/use_interactive_step/d' "$CLUSTER/etc/slurm.conf"
    timeout 120 scontrol reconfigure 3>&-
    [ "$status" -eq 5 ] || { echo "exit code $status: $output"; false; }
    has "shell 16 node-prism[0-3]"
    has "task 15 of 16"
}

@test "an ordinary user's job" {
    [ "$(id -u)" -eq 0 ] || skip "the other tests have run as one"
    local user=prism-batch-$$ code=0 comment
    useradd --no-create-home --shell /bin/sh "$user"
    chmod 755 "$WORK"
    mv "$CLUSTER/softgpu" "$CLUSTER/softgpu.root"
    mkdir -m 700 "$CLUSTER/softgpu"
    chown "$user" . "$CLUSTER/softgpu"
    printf '#!/bin/bash\necho "script $(id -un) $SLURM_NTASKS"\nsrun mkdir -p results\nsrun "$looper" fault 2\n' >job.sh
    chmod 644 job.sh
    runuser -u "$user" -- timeout 300 sbatch --wait --output=out "${shape[@]}" --prism-emulate job.sh >submitted 2>&1 3>&- || code=$?
    rm -rf "$CLUSTER/softgpu"
    mv "$CLUSTER/softgpu.root" "$CLUSTER/softgpu"
    comment=$(timeout 60 squeue -h -t all -j "$(timeout 60 squeue -h -t all -u "$user" -o %i 3>&-)" -o %k 3>&-)
    userdel "$user"
    output=$(cat out submitted)
    echo "$output"
    [ $code -eq 0 ]
    has "script $user 16"
    grep -q '^rank 0 iteration 1 sum' out
    [ -d results ]
    [ -e prism-trace/job.sh/trace.json ]
    [[ $comment == prism:world=16,*state=ended,*exit_code=0,exit_origin=program* ]] || { echo "Comment: $comment"; false; }
}
