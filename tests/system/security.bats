#!/usr/bin/env bats
# Who may talk to prismd: not another user, not a process without the run's key, not one that says again what a rank has said,
# or half of it. Nothing in places where others can write; setuid programs are left alone. Between nodes: prismd/test/link_setup.c.

load common

setup() { common_setup; }
teardown() { common_teardown; }

# A run whose rank 2 hangs in capture until ./fault is removed. Sets $rank (its process).
start_hanging() {
    echo 'hang 2 3' >fault
    export PRISM_STALL_SECONDS=0
    start_foreground "$prism" run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace --phase=capture \
        -- "$looper" fault 6 20
    rank=$(rank_pid 2)
    local until=$((SECONDS + 120))
    while [ "$SECONDS" -lt "$until" ]; do
        grep -qs 'rank 0 iteration 2' trace/logs/capture.rank0 && return 0
        sleep 0.1
    done
    return 1
}
ends_well() {
    rm fault
    await_started 120
    [ "$code" = 0 ] || { echo "exit code $code: $(cat .stderr)"; return 1; }
    nothing_left
}
variable() { tr '\0' '\n' <"/proc/$rank/environ" | sed -n "s/^$1=//p"; }

# Says HELLO (lib/proto/message.h) and prints the type of the answer and its descriptors, or "closed".
#   hello RANK KEY [BYTES [VERSION]]
hello() {
    timeout 120 python3 - "$(variable PRISM_SOCKET)" "$@" <<'P'
import os, socket, struct, sys
name, rank, key = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
size = int(sys.argv[4]) if len(sys.argv) > 4 else 56
version = int(sys.argv[5]) if len(sys.argv) > 5 else 1
if os.environ.get("AS"):
    os.setuid(int(os.environ["AS"]))
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect("\0" + name)
try:
    s.send(struct.pack("<IIIIiI32s", 1, 56, version, rank, os.getpid(), 0, key)[:size])
    data, fds, flags, address = socket.recv_fds(s, 4096, 4)
except ConnectionError:
    data, fds = b"", []
print("type %d, %d descriptors" % (struct.unpack("<I", data[:4])[0], len(fds)) if data else "closed")
P
}

@test "another user, another key, a message again, half a message, another version" {
    start_hanging
    local key
    key=$(variable PRISM_KEY)
    [ "$(variable PRISM_RANK)" = 2 ]
    [ ${#key} -eq 32 ]
    # The right key, of the right user: rank 2 is there already. So what follows is refused for its own reason.
    [ "$(hello 2 "$key")" = "type 65, 0 descriptors" ]
    [ "$(hello 4 "$key")" = "type 65, 0 descriptors" ]
    [ "$(hello 4294967295 "$key")" = "type 65, 0 descriptors" ]
    [ "$(hello 2 "$key" 56 99)" = "type 65, 0 descriptors" ]
    [ "$(hello 2 "${key//[0-9]/f}")" = closed ]
    [ "$(hello 2 "")" = closed ]
    for bytes in 1 8 55; do [ "$(hello 2 "$key" $bytes)" = closed ]; done
    if [ "$(id -u)" -eq 0 ]; then [ "$(AS=65534 hello 2 "$key")" = closed ]; fi
    ends_well
}

@test "the key is nowhere but in the ranks' environment" {
    start_hanging
    local key pid
    key=$(variable PRISM_KEY)
    [ ${#key} -eq 32 ]
    absent "$key" -r trace softgpu
    for pid in $(our_processes | cut -d' ' -f1); do absent "$key" -a - < <(cat "/proc/$pid/cmdline"); done
    ends_well
}

@test "no file in a place where others can write" {
    start_hanging
    local pid
    for pid in $(our_processes | cut -d' ' -f1); do
        find "/proc/$pid/fd" "/proc/$pid/map_files" -printf '%l\n' 2>/dev/null
    done | grep -E '^(/tmp|/var/tmp|/dev/shm|/run)/' | grep -vF "$BATS_RUN_TMPDIR/" | grep -vF "$PRISM_BUILD/" |
        grep -vF "$PRISM_SOURCE/" >open || true
    [ ! -s open ] || { cat open; false; }
    ends_well
}

@test "setuid programs do not load the library" {
    [ "$(id -u)" -eq 0 ] || skip "making one needs root"
    shared=$(mktemp -d)
    findmnt -no OPTIONS -T "$shared" | grep -q nosuid && skip "this file system has no setuid programs"
    cp /bin/cat "$shared/plain"
    cp /bin/cat "$shared/privileged"
    cp "$PRISM_BUILD/lib/libprism.so" "$shared"
    chmod 755 "$shared" "$shared"/*
    chmod 4755 "$shared/privileged"
    as_nobody() {
        setpriv --reuid 65534 --clear-groups env LD_PRELOAD="$shared/libprism.so" PRISM_LAUNCH=1 PRISM_PRISMD=/nonexistent "$@"
    }
    run as_nobody "$shared/plain" /proc/self/maps
    [ "$status" -eq 68 ]
    grep -q 'cannot start prismd' <<<"$output"
    run as_nobody "$shared/privileged" /proc/self/maps
    rm -r "$shared"
    [ "$status" -eq 0 ]
    absent libprism - <<<"$output"
}
