# contrib/onebox itself: start, stop, several side by side, as root and as an ordinary user.

load helper

setup() {
    local reason
    reason=$(lacks_slurm)
    [ -z "$reason" ] || skip "$reason"
    box=$(mktemp -d /tmp/onebox.XXXXXX)
    second=$(mktemp -d /tmp/onebox.XXXXXX)
}

teardown() {
    [ -n "${box:-}" ] || return 0
    timeout 300 "$onebox" stop "$box" 3>&-
    timeout 300 "$onebox" stop "$second" 3>&-
    rm -rf "$box" "$second"
}

start() { timeout 300 "$onebox" start "$@" 3>&-; }

# Processes that have it in their environment; a zombie's is empty.
left_of() { grep -lsxzF "ONEBOX_DIR=$1" /proc/[0-9]*/environ 2>/dev/null | wc -l; }

sleepers() { [ "$(for pid in $(pgrep -x sleep); do grep -qsxzF "ONEBOX_DIR=$box" "/proc/$pid/environ" && echo "$pid"; done | wc -l)" -eq 4 ]; }

# Else all other tests here would be skipped, and nobody would notice.
@test "where Slurm is installed the plugins and the programs that the tests run are built" {
    for file in lib/slurm/{spank,cli_filter,job_submit}_prism.so bin/prismd bin/prism-pmix bin/moetrain lib/libprism.so \
        lib/softgpu/libcuda.so.1 test/looper test/pmix_client test/roll; do
        [ -e "$PRISM_BUILD/$file" ] || { echo "$file is not built"; false; }
    done
}

@test "start, exec, status, start again, stop; accounting survives" {
    run start "$box" --nodes 2 --gpus 4
    [ "$status" -eq 0 ]
    run start "$box" --nodes 2 --gpus 4
    [ "$status" -eq 0 ]
    says "already running"
    run timeout 300 "$onebox" exec "$box" -- srun -N2 --gpus-per-node=4 sh -c 'echo $SLURMD_NODENAME $SOFTGPU_NODE $SOFTGPU_DIR $CUDA_VISIBLE_DEVICES'
    has "node1 1 $box/softgpu 0,1,2,3"
    run timeout 300 "$onebox" status "$box"
    [ "$status" -eq 0 ]
    says "node1 idle"
    # A step and what it left in the background end with the cluster.
    timeout 300 "$onebox" exec "$box" -- srun -N2 sh -c 'setsid sleep 300 & exec sleep 300' >/dev/null 2>&1 3>&- &
    await sleepers
    run timeout 300 "$onebox" stop "$box"
    [ "$status" -eq 0 ]
    [ "$(left_of "$box")" -eq 0 ]
    run timeout 300 "$onebox" status "$box"
    [ "$status" -eq 3 ]
    run timeout 300 "$onebox" exec "$box" -- true
    [ "$status" -eq 71 ]
    run start "$box" --nodes 1
    [ "$status" -eq 0 ]
    recorded() { timeout 300 "$onebox" exec "$box" -- sacct -X -n -P -o Account,State,JobID 3>&- | grep -q '^prism|COMPLETED|1$'; }
    await recorded
}

@test "two side by side" {
    start "$box" --nodes 1 >/dev/null 2>&1 &
    run start "$second" --nodes 1
    [ "$status" -eq 0 ]
    wait $!
    run timeout 300 "$onebox" exec "$box" -- srun printenv ONEBOX_DIR
    has "$box"
    run timeout 300 "$onebox" exec "$second" -- srun printenv ONEBOX_DIR
    has "$second"
}

@test "software GPU libraries come first in every task's LD_LIBRARY_PATH" {
    mkdir "$second/libs"
    start "$box" --nodes 1 --softgpu "$second/libs"
    LD_LIBRARY_PATH=/opt/mine run timeout 300 "$onebox" exec "$box" -- srun printenv LD_LIBRARY_PATH
    has "$second/libs:/opt/mine"
    run timeout 300 "$onebox" exec "$box" -- srun --export=NONE /usr/bin/printenv LD_LIBRARY_PATH
    has "$second/libs"
}

@test "a start that fails says why and leaves nothing" {
    # An ordinary file where MariaDB wants its tables.
    mkdir -p "$box/db" && touch "$box/db/installed" && echo garbage >"$box/db/ibdata1"
    run start "$box" --nodes 1
    [ "$status" -eq 71 ]
    says "MariaDB did not start"
    says "InnoDB"
    [ "$(left_of "$box")" -eq 0 ]
}

@test "wrong use" {
    run "$onebox"
    [ "$status" -eq 64 ]
    run "$onebox" start "$box" --nodes x
    [ "$status" -eq 64 ]
    says "--nodes takes a number from 1 to 64, not 'x'"
    run "$onebox" start "$box" --plugins /no/such/folder
    [ "$status" -eq 64 ]
    run "$onebox" start "$box/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    [ "$status" -eq 64 ]
    says "at most 65"
    run "$onebox" stop /no/such/folder
    [ "$status" -eq 0 ]
}

@test "as an ordinary user" {
    [ "$(id -u)" -eq 0 ] || skip "the other tests have run as one"
    local user=onebox-test-$$ home
    home=$(mktemp -d /tmp/onebox.XXXXXX)
    useradd --no-create-home --home-dir "$home" --shell /bin/sh "$user"
    cp -r "$PRISM_SOURCE/contrib/onebox" "$home/tool"
    cp "$PRISM_SOURCE/tests/fixtures/network.json" "$home"
    chown -R "$user" "$home"
    as_user() { (cd "$home" && timeout 300 runuser -u "$user" -- "$@" 3>&-); }
    run as_user "$home/tool/onebox" start "$home/box" --nodes 2 --plugins "$PRISM_BUILD/lib/slurm" --libdir "$PRISM_BUILD/lib" \
        --bindir "$PRISM_BUILD/bin" --softgpu "$PRISM_BUILD/lib/softgpu"
    local started=$status first=$output
    run as_user "$home/tool/onebox" exec "$home/box" -- srun -N2 --gpus-per-node=1 id -un
    local ran=$output
    # The whole path where not even slurmd is root.
    run as_user env SOFTGPU_TIME_SCALE=0.05 PRISM_NETWORK="$home/network.json" PRISM_NODES=2 PRISM_DEVICES_PER_NODE=2 "$home/tool/onebox" exec \
        "$home/box" -- srun -n 8 --gpus-per-node=4 --prism-emulate=8 --prism-sandbox=0,5 --prism-assistants=0 "$PRISM_BUILD/test/looper" fault 3
    local emulated=$status said=$output
    run as_user "$home/tool/onebox" exec "$home/box" -- squeue -h -t all -n looper -o %k
    local comment=$output
    run as_user "$home/tool/onebox" stop "$home/box"
    local stopped=$status left
    left=$(left_of "$home/box")
    rm -rf "$home"
    userdel "$user" 2>/dev/null || true
    echo "$first"
    [ "$started" -eq 0 ]
    [ "$(grep -cx "$user" <<<"$ran")" -eq 2 ]
    [ "$emulated" -eq 0 ] || { echo "$said"; false; }
    output=$said
    has 'rank 0 iteration 2 sum 44'
    has 'rank 5 iteration 2 sum 44'
    output=$comment
    says 'state=ended'
    says 'exit_code=0,exit_origin=program'
    [ "$stopped" -eq 0 ]
    [ "$left" -eq 0 ]
}
