# What sacct, sreport and `prism acct` say of emulated jobs, against the run's own report; results while a job still runs.

load helper

setup_file() {
    [ -z "$(lacks_program)" ] || return 0
    work_folder
    real_cluster --nodes 2
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_program)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    rm -f fault
}

options=(-n 8 --gpus-per-node=4 --prism-emulate=8 --prism-gpus-per-node=4 --prism-sandbox=0,5 --prism-assistants=0)
comment() { inside squeue -h -t all -j "$1" -o %k; }
json() { python3 -c "import json, sys; j = json.load(open('$1')); assert $2, j"; }
# The database's job $1 as JSON, in acct.json
acct_of() {
    inside "$PRISM_BUILD/bin/prism" acct --json -j "$1" >acct.json
    grep -q '"world"' acct.json
}
# The database has all of job $1, which is called $2. (The record of a job whose steps came to it before the job did is called
# "allocation" and has no TRES until slurmctld's next turn, seconds later: its as_mysql_job_start.)
ended_as() { [[ $(inside sacct -X -n -P -j "$1" -o JobName,State,AllocTRES) == "$2|COMPLETED|"*license/prism_gpu=* ]]; }
comment_has() { comment "$1" | grep -qE -- "$2" || { comment "$1"; return 1; }; }

@test "a batch job of two emulated steps and a plain one: Comment, TRES and hours are the report's" {
    cat >job.sh <<'S'
#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4 --output=job.out --comment=mine,=too
#SBATCH --prism-emulate --prism-sandbox=0,5 --prism-assistants=0 --prism-gpus-per-node=4
srun --prism-trace="$PWD/batch" --prism-phase=capture "$looper" fault 4 && squeue -h -j "$SLURM_JOB_ID" -o %k >first.comment
srun --prism-emulate=0 sleep 2
srun --prism-trace="$PWD/batch" "$looper" fault 4
S
    run sbatch_wait job.sh
    [ "$status" -eq 0 ] || { cat job.out; false; }
    job=$(last_job)
    echo "$job" >batch.job
    await ended_as "$job" job.sh
    await acct_of "$job"
    comment "$job" >comment
    grep -q '^mine,=too; prism:world=8,' comment
    python3 - "$job" <<'P'
import json, sys
report = json.load(open("batch/report.json"))
def pairs_of(comment):
    return dict(pair.split("=", 1) for pair in comment.split("; prism:")[1].split(","))
comment, first = open("comment").read().strip(), pairs_of(open("first.comment").read().strip())
own, pairs = comment.split("; prism:")[0], pairs_of(comment)
phases = report["phases"]
assert len(comment) < 1024 and own == "mine,=too"
assert pairs["world"] == "8" and pairs["sandbox"] == "0+5" and pairs["assistants"] == "0" and pairs["phase"] == "auto"
assert pairs["step"] == sys.argv[1] + ".2" and pairs["state"] == "ended", pairs
assert pairs["trace_id"] == report["trace_id"] and pairs["exit_code"] == "0" and pairs["exit_origin"] == "program"
seconds = [sum(s[1:]) / len(s[1:]) for s in report["iteration_seconds"].values()]
assert int(pairs["iterations"]) == 4
assert abs(float(pairs["iteration_seconds"]) / (sum(seconds) / 2) - 1) < 1e-4
assert int(pairs["peak_memory_bytes"]) == max(report["peak_memory_bytes"].values())
assert abs(float(pairs["prediction_error"]) / report["prediction_error"] - 1) < 1e-3
own_hours = 8 * sum(phases.values()) / 3600
assert phases["capture"] == 0 and abs(float(pairs["emulate_seconds"]) - phases["emulate"]) < 1e-3, (phases, pairs)
# The first step's capture is counted too, and nothing of the plain step in between.
assert first["step"] == sys.argv[1] + ".0" and first["state"] == "ended" and first["emulate_seconds"] == "0.000", first
before, both = float(first["emulated_gpu_hours"]), float(pairs["emulated_gpu_hours"])
assert before > 0 and abs(before - 8 * float(first["capture_seconds"]) / 3600) < 1e-5, first
assert abs(both - before - own_hours) < 1e-5, (before, own_hours, both)

job, = json.load(open("acct.json"))["jobs"]
assert job["state"] == "COMPLETED" and job["gpus"] == 2 and job["licences"] == report["world"] and job["elapsed_seconds"] >= 2
assert abs(job["gpu_hours"] - 2 * job["elapsed_seconds"] / 3600) < 1e-9
assert abs(job["emulated_gpu_hours"] - 8 * job["elapsed_seconds"] / 3600) < 1e-9
run = job["run"]
assert run["trace_id"] == report["trace_id"] and run["world"] == 8 and run["peak_memory_bytes"] == int(pairs["peak_memory_bytes"])
assert run["emulated_gpu_hours"] == float(pairs["emulated_gpu_hours"]) and run["exit_origin"] == "program"
P
    run inside sacct -X -n -P -j "$job" -o AdminComment,AllocTRES
    says 'prism:world=8,nodes=2,gpus_per_node=4,devices=2,sandbox_ranks=2,sandbox=0+5,assistants=0,phase=auto|'
    says 'license/prism_gpu=8,license/prism_rank=8'
    run inside "$PRISM_BUILD/bin/prism" acct -j "$job"
    [ "$(wc -l <<<"$output")" -eq 2 ]
    says 'EMULATED-GPU-H'
    grep -qE "^$job +job.sh +prism +COMPLETED .* program$" <<<"$output" || { echo "$output"; false; }
}

@test "steps at once, helpers before, between and behind: sums of all, results of the last; names of steps" {
    cat >job.sh <<'S'
#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4 --output=many.out --comment=mine --job-name=many
#SBATCH --prism-emulate --prism-sandbox=0,5 --prism-assistants=0 --prism-gpus-per-node=4
srun mkdir -p results
squeue -h -j "$SLURM_JOB_ID" -o 'helper: %k'
srun --overlap --prism-trace="$PWD/first" "$looper" fault 4 100 &
until squeue -h -s -j "$SLURM_JOB_ID" | grep -qF "$SLURM_JOB_ID.1"; do sleep 0.1; done
srun --overlap -J "a name" --prism-trace="$PWD/second" sh -c 'echo "job $SLURM_JOB_NAME"; exec "$looper" fault 4 100' &
wait
cp first/report.json first.report
cp second/report.json second.report
srun --prism-emulate=0 sh -c 'echo "plain $SLURM_JOB_NAME"'
srun -n 8 sh -c 'sleep 2; echo "helper $SLURM_JOB_NAME"; exit 3'
srun --prism-trace="$PWD/none" --prism-phase=emulate "$looper" fault 4
squeue -h -j "$SLURM_JOB_ID" -o 'failed: %k'
srun --prism-trace="$PWD/first" "$looper" fault 4 100
srun mkdir -p results/more
S
    run sbatch_wait job.sh
    [ "$status" -eq 0 ] || { cat many.out; false; }
    job=$(last_job)
    comment "$job" >comment
    python3 - "$job" <<'P' || { cat comment many.out; false; }
import json, sys
job = sys.argv[1]
def pairs_of(comment):
    own, part = comment.strip().split("; prism:")
    assert own == "mine" and len(comment) < 1024, comment
    return dict(pair.split("=", 1) for pair in part.split(","))
lines = [line.strip() for line in open("many.out")]
def said(what):
    return pairs_of([line for line in lines if line.startswith(what)][0].removeprefix(what))
start, failed, end = said("helper: "), said("failed: "), pairs_of(open("comment").read())
assert start["state"] == "none" and start["exit_code"] == "0" and "emulated_gpu_hours" not in start and "steps" not in start, start
assert failed["step"] == job + ".5" and failed["exit_origin"] == "prism" and failed["steps"] == "3" and failed["failed"] == "1", failed
assert end["step"] == job + ".6" and end["state"] == "ended" and end["exit_code"] == "0" and end["iterations"] == "4", end
assert end["steps"] == "4" and end["failed"] == "1", end
assert end["trace_id"] == json.load(open("first/report.json"))["trace_id"], end
# Hours of the emulated steps and of nothing else: those of their reports, and what the one that was refused took until then.
def hours(report):
    return 8 * sum(json.load(open(report))["phases"].values()) / 3600
before, all = float(failed["emulated_gpu_hours"]), float(end["emulated_gpu_hours"])
reports = hours("first.report"), hours("second.report"), 8 * float(failed["capture_seconds"]) / 3600
assert abs(before - sum(reports)) < 1e-5, (before, reports)
assert abs(all - before - hours("first/report.json")) < 1e-4 * all, (all, before, hours("first/report.json"))
P
    output=$(cat many.out)
    has "job a name"
    has "plain many"
    has "helper many"
    cat >expected <<E
$job|many
$job.batch|batch
$job.0|prism:mkdir
$job.1|prism:looper
$job.2|a name
$job.3|sh
$job.4|prism:sh
$job.5|prism:looper
$job.6|prism:looper
$job.7|prism:mkdir
E
    names() { inside sacct -n -P -j "$job" -o JobID,JobName >names && cmp -s names expected; }
    await names || { diff names expected; false; }
}

@test "sreport counts emulated GPU-hours per account" {
    [ -e "$PRISM_BUILD/test/roll" ] || skip "there is no slurm/slurmdb.h to build the helper with"
    # Half an hour of eight GPUs, in the hour before this one.
    await ended_as "$(cat batch.job)" job.sh
    mariadb --no-defaults -S "$CLUSTER/run/db.sock" -u "$(id -un)" slurm_acct -e "
        SET @b = (unix_timestamp() DIV 3600 - 1) * 3600;
        UPDATE onebox_job_table SET time_submit = @b, time_eligible = @b, time_start = @b, time_end = @b + 1800
            WHERE id_job = $(cat batch.job);
        UPDATE onebox_event_table SET time_start = @b - 3600;
        UPDATE onebox_last_ran_table SET hourly_rollup = @b - 3600, daily_rollup = @b - 3600, monthly_rollup = @b - 3600;"
    inside "$PRISM_BUILD/test/roll"
    run inside sreport -n -P -t hours --tres=license/prism_gpu cluster AccountUtilizationByUser Start=now-3hours End=now
    grep -qE "^onebox\|prism\|$(id -un)\|[^|]*\|license/prism_gpu\|4$" <<<"$output" || { echo "$output"; false; }
}

@test "a running job says how far it is; a cancelled one keeps that" {
    inside srun "${options[@]}" --prism-trace="$WORK/loop" "$looper" fault 6
    echo "hang 5 4" >fault
    PRISM_ACCOUNTING_SECONDS=1 inside sbatch -o loop.out --comment=mine --job-name=loop "${options[@]}" --prism-trace="$WORK/loop" \
        --wrap "srun $looper fault 6" >/dev/null
    job=$(last_job)
    await comment_has "$job" 'mine; prism:.*state=emulate,iterations=[34],iteration_seconds=[0-9.e-]+,peak_memory_bytes=[1-9]'
    inside scancel "$job"
    cancelled() { acct_of "$job" && json acct.json 'j["jobs"][0]["state"].startswith("CANCELLED")'; }
    await cancelled
    json acct.json 'j["jobs"][0]["run"]["iterations"] in (3, 4) and j["jobs"][0]["run"]["emulated_gpu_hours"] > 0'
}

@test "the end of a phase is told at once, not when the next minute is over" {
    echo "hang 5 4" >fault
    cp -r loop phases
    PRISM_ACCOUNTING_SECONDS=3600 inside sbatch -o phases.out --job-name=phases "${options[@]}" --prism-phase=calibrate \
        --prism-trace="$WORK/phases" --wrap "srun $looper fault 6" >/dev/null
    await comment_has "$(last_job)" 'state=calibrate.*trace_id=[0-9a-f]'
    inside scancel "$(last_job)"
}

@test "a job that has been cancelled takes no comment: nobody waits for that" {
    mkdir -p fake
    printf '#!/bin/sh\necho "(null)"\n' >fake/squeue
    printf '#!/bin/sh\necho called >>fake/calls\necho "Job has already finished for job 7" >&2\nexit 1\n' >fake/scontrol
    chmod 755 fake/*
    echo 'prism:world=8,step=7.0,state=ended' | PATH=$WORK/fake:$PATH timeout 300 "$PRISM_BUILD/bin/prism" acct --store 7 3>&-
    [ "$(wc -l <fake/calls)" -eq 1 ] # other failures are tried again, for eight seconds
}

@test "failures: whose they were" {
    echo "hang 5 4" >fault
    run inside srun "${options[@]}" --prism-trace="$WORK/other" --prism-phase=emulate "$looper" fault 6
    [ "$status" -eq 65 ]
    comment_has "$(last_job)" 'state=ended.*exit_code=65,exit_origin=prism'
    rm fault
    run inside srun "${options[@]}" --prism-trace="$WORK/seven" bash -c 'exit 7'
    [ "$status" -eq 7 ]
    comment_has "$(last_job)" 'state=none.*exit_code=7,exit_origin=program'
}

@test "a task of a job array" {
    inside sbatch --wait --array=3-4 -o array.%a "${options[@]}" --prism-trace="$WORK/loop" --wrap "srun $looper fault 6" >/dev/null
    run inside squeue -h -t all -r -n wrap -o '%K %k'
    [ "$(grep -cE '^[34] prism:.*state=ended.*exit_code=0' <<<"$output")" -eq 2 ] || { echo "$output"; false; }
}
