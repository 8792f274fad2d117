#!/usr/bin/env bats
# Programs that are started where another root is seen: the preload library reaches them although its file is not there.

load common

setup() {
    common_setup
    command -v bwrap >/dev/null || skip "bubblewrap is not installed"
    # Everything but the folder that the library is in.
    inside=(bwrap --bind / / --dev-bind /dev /dev --proc /proc --tmpfs "$PRISM_BUILD/lib"
        --ro-bind "$PRISM_BUILD/lib/softgpu" "$PRISM_BUILD/lib/softgpu")
    "${inside[@]}" true 2>/dev/null || skip "bubblewrap cannot make containers here"
    "${inside[@]}" test ! -e "$PRISM_BUILD/lib/libprism.so"
}
teardown() { common_teardown; }

emulated() { run_prism run --emulate=4 --gpus-per-node=4 --sandbox=0,2 --assistants=0 --trace=trace -- "$@"; }
shows_the_run() {
    [ "$status" -eq 0 ] || { echo "exit code $status: $errors"; return 1; }
    absent 'cannot be preloaded' - <<<"$errors"
    grep -qx 'rank 2 iteration 5 sum 26' <<<"$output"
    nothing_left
}

@test "a program in a container that lacks the library" {
    emulated "${inside[@]}" "$looper" fault 6
    shows_the_run
}

@test "a script that makes the container" {
    printf '#!/bin/sh\nexec %s %s fault 6\n' "${inside[*]}" "$looper" >script
    chmod 755 script
    PRISM_CONTAINER=1 emulated ./script
    shows_the_run
}

# Nothing runs, and one line says why.
refused() {
    emulated "$@"
    [ "$status" -eq 69 ] || { echo "exit code $status: $output $errors"; return 1; }
    [ "$(grep -c '^prism: .*another network namespace' <<<"$errors")" -eq 1 ] || { echo "$errors"; return 1; }
    [ -z "$output" ]
    nothing_left
}

@test "another network namespace is refused before the program starts" {
    "${inside[@]}" --unshare-net true 2>/dev/null || skip "bubblewrap cannot make network namespaces here"
    printf '#!/bin/sh\necho >started\nexec %s fault 6\n' "$looper" >program
    chmod 755 program
    refused "${inside[@]}" --unshare-net ./program
    grep -q '^prism: bwrap starts the ranks in another network namespace.*without --unshare-net' <<<"$errors"
    [ ! -e started ]
    if [ "$(id -u)" -eq 0 ]; then
        refused unshare --net ./program
        [ ! -e started ]
    fi
}

@test "another network namespace that a script makes is refused when the program needs prismd" {
    "${inside[@]}" --unshare-net true 2>/dev/null || skip "bubblewrap cannot make network namespaces here"
    printf '#!/bin/sh\nexec %s --unshare-net %s fault 6\n' "${inside[*]}" "$looper" >script
    chmod 755 script
    PRISM_CONTAINER=1 refused ./script
    grep -q '^prism: script starts the ranks' <<<"$errors"
}
