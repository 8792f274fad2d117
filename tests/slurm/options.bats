# Options from prism.conf: command line before variable before file, for srun, sbatch and salloc, as root and as a user.
# A stand-in for prismd shows what arrives.

load helper

setup_file() {
    [ -z "$(lacks_plugins)" ] || return 0
    own_environment
    WORK=$(mktemp -d)
    export WORK
    chmod 755 "$WORK"
    mkdir -p "$WORK/bin"
    printf '#!/bin/bash\nexec env\n' >"$WORK/bin/prismd"
    chmod 755 "$WORK/bin/prismd"
    cluster_start --nodes 1 --plugins "$PRISM_BUILD/lib/slurm" --libdir "$PRISM_BUILD/lib" --bindir "$WORK/bin"
    eval "$("$onebox" env "$CLUSTER")"
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_plugins)
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
    printf '[options]\npayload = control\nslices = 2\nphase = capture\n' >"$CLUSTER/etc/prism.conf"
    unset PRISM_CONFIG
}
teardown() { rm -f "${CLUSTER:-/none}/etc/prism.conf"; }

@test "command line before variable before file" {
    PRISM_SLICES=3 PRISM_PHASE=calibrate run timeout 300 srun --prism-emulate=8 --prism-phase=emulate true 3>&-
    [ "$status" -eq 0 ]
    has PRISM_PAYLOAD=control
    has PRISM_SLICES=3
    has PRISM_PHASE=emulate
}

@test "sbatch, #SBATCH lines and salloc take the file's, too" {
    printf '#!/bin/bash\n#SBATCH --prism-emulate=8 --prism-slices=4\nsrun true\n' >job.sh
    timeout 300 sbatch --wait -o out job.sh 3>&-
    output=$(cat out)
    has PRISM_PAYLOAD=control
    has PRISM_SLICES=4
    run timeout 300 salloc --prism-emulate=8 srun true 3>&-
    [ "$status" -eq 0 ]
    has PRISM_PAYLOAD=control
}

@test "a user's own file instead of the site's" {
    printf '[options]\npayload = none\n' >own.conf
    PRISM_CONFIG=$WORK/own.conf run timeout 300 srun --prism-emulate=8 true 3>&-
    has PRISM_PAYLOAD=none
    has_not '^PRISM_SLICES='
}

@test "a broken file refuses emulation with file and line; nobody else notices" {
    printf '[options]\npayload = some\n' >"$CLUSTER/etc/prism.conf"
    run timeout 300 srun --prism-emulate=8 true 3>&-
    [ "$status" -eq 255 ]
    says "$CLUSTER/etc/prism.conf, line 2: payload=some: 'some' is unknown"
    run timeout 300 srun hostname 3>&-
    [ "$status" -eq 0 ]
    has_not prism:
    PRISM_CONFIG=/no/such run timeout 300 srun --prism-emulate=8 true 3>&-
    [ "$status" -eq 255 ]
    says /no/such
}

@test "plugstack.conf's config= names the file" {
    local line
    line=$(cat "$CLUSTER/etc/plugstack.conf")
    printf '[options]\niterations = 9\n' >site.conf
    echo "$line config=$WORK/site.conf" >"$CLUSTER/etc/plugstack.conf"
    run timeout 300 srun --prism-emulate=8 true 3>&-
    echo "$line" >"$CLUSTER/etc/plugstack.conf"
    has PRISM_ITERATIONS=9
    has_not '^PRISM_(SLICES|SITE_CONFIG)='
}

@test "prism run takes the file, too" {
    PRISM_CONFIG=$CLUSTER/etc/prism.conf
    printf '[options]\nslices = many\n' >"$PRISM_CONFIG"
    PRISM_CONFIG=$PRISM_CONFIG run "$PRISM_BUILD/bin/prism" run --emulate=8 true
    [ "$status" -eq 64 ]
    says "line 2: slices=many"
}
