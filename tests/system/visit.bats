#!/usr/bin/env bats
# tests/gpu/visit: whatever a job does, it ends, and what was found until then is there. tests/gpu/pack_all: its folder stands by
# itself.

load common

setup() {
    common_setup
    visit=$PRISM_SOURCE/tests/gpu/visit
}
teardown() { common_teardown; }

run_visit() { # PLAN [arguments...]
    run timeout 200 "$visit" "$@" --rehearse --pack "$PRISM_BUILD" --out out
    echo "$output"
}
state() { awk -v job="$1" '$1 == job { print $3 }' out/status.txt; }
member() { tar -xOzf "out/$1" "$2"; }

@test "a job that hangs is ended with what it started in other sessions; the others' results are there" {
    cat >plan <<'P'
minutes 2
quick gpus=0 limit=60 | echo '{"a": 1}' >{out}/a.json; echo said
hangs gpus=0 limit=4 | echo '{"half": 1}' >{out}/half.json; (setsid sh -c 'trap "" TERM; exec sleep 301' & exec sleep 302)
fails gpus=1 limit=60 | echo 'because of this'; exit 3
pair gpus=0,1 limit=60 | echo alone
P
    run_visit plan
    [ "$status" -eq 1 ]
    [ "$(state quick) $(state hangs) $(state fails) $(state pair)" = "passed limit failed passed" ]
    grep -q '^ *because of this$' out/status.txt
    [ "$(member results.tar.gz quick/a.json)" = '{"a": 1}' ]
    [ "$(member results.tar.gz hangs/half.json)" = '{"half": 1}' ]
    [ "$(member logs.tar.gz quick/output.log)" = said ]
    [ "$(ls out | wc -l)" -le 8 ]
    nothing_left
}

@test "the whole has an end, and says what was not begun" {
    cat >plan <<'P'
minutes 0.7
long gpus=0 limit=500 | echo '{}' >{out}/a.json; sleep 303
never gpus=0 limit=500 | echo no
P
    local before=$SECONDS
    run_visit plan
    [ "$status" -eq 1 ]
    [ $((SECONDS - before)) -lt 120 ]
    [ "$(state long) $(state never)" = "limit skipped" ]
    grep -q 'no time left for it' out/status.txt
    [ "$(member results.tar.gz long/a.json)" = '{}' ]
    nothing_left
}

@test "killed without warning, it leaves whole files" {
    cat >plan <<'P'
first gpus=0 limit=60 | echo '{"a": 1}' >{out}/a.json
second gpus=0 limit=60 | sleep 40
P
    "$visit" plan --rehearse --pack "$PRISM_BUILD" --out out >log 2>&1 &
    local pid=$! tries
    for ((tries = 0; tries < 600; tries++)); do
        [ "$(state first)" = passed ] && break
        sleep 0.1
    done
    kill -KILL $pid
    [ "$(member results.tar.gz first/a.json)" = '{"a": 1}' ]
    # What a killed runner started is the machine's to end.
    for pid in $(our_processes | cut -d' ' -f1); do kill -KILL "$pid" || true; done
}

@test "asked to stop, it ends its jobs and leaves their results" {
    echo 'sleeper gpus=0 limit=60 | echo "{}" >{out}/a.json; sleep 304' >plan
    "$visit" plan --rehearse --pack "$PRISM_BUILD" --out out >log 2>&1 &
    local pid=$! tries
    for ((tries = 0; tries < 600; tries++)); do
        grep -qs 'sleep 304' <<<"$(our_processes)" && break
        sleep 0.1
    done
    kill -TERM $pid
    wait $pid || true
    [ "$(state sleeper)" = ended ]
    [ "$(member results.tar.gz sleeper/a.json)" = '{}' ]
    nothing_left
}

@test "plans are read, and mistakes in them named" {
    run "$visit" --list
    [ "$status" -eq 0 ]
    [ "$(grep -c '^about' <<<"$output")" -eq "$(ls "$PRISM_SOURCE"/tests/gpu/visits/*.plan | wc -l)" ]
    # Ten minutes is what a command has.
    awk '/^about/ && ($2 > 9.5 || $NF > 9.5) { exit 1 }' <<<"$output"
    echo 'job gpus=0 | true' >plan
    run "$visit" plan --rehearse --pack "$PRISM_BUILD"
    [ "$status" -eq 64 ]
    [ "$output" = "tests/gpu/visit: plan:1: not 'minutes M' or 'NAME gpus=0 limit=SECONDS | COMMAND': job gpus=0 | true" ]
    echo 'job gpus=0 limit=9 | {nonsense}' >plan
    run "$visit" plan --rehearse --pack "$PRISM_BUILD"
    [ "$status" -eq 64 ]
}

@test "a packed folder, unpacked elsewhere, rehearses a visit" {
    "$PRISM_SOURCE/tests/gpu/pack_all" --without cuda,external,slurm "$PRISM_BUILD" packed
    mkdir elsewhere
    tar -C packed -c . | tar -C elsewhere -x
    rm -r packed
    cat >plan <<'P'
minutes 5
programs gpus=0 limit=200 | {run} --stages programs,pacing --programs tp
P
    run timeout 300 env -u PRISM_BUILD -u PRISM_SOURCE -u LD_LIBRARY_PATH elsewhere/tree/tests/gpu/visit plan --rehearse --out out \
        --network "$PRISM_NETWORK"
    echo "$output"
    [ "$status" -eq 0 ]
    member results.tar.gz programs/results.json >results.json
    python3 - <<'P'
import json
row = json.load(open("results.json"))["stages"]["programs"]["rows"][0]
assert row["program"] == "tp" and row["passed"] and row["comparisons"]["real-emulated"]["bits_equal"], row
P
    nothing_left
}
