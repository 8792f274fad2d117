# Installing: make install, the packages, plugins for another release of Slurm, the examples; `prism doctor` on a cluster.

load helper

setup_file() {
    [ -z "$(lacks_plugins)" ] || return 0
    own_environment
    WORK=$(mktemp -d)
    export WORK SOFTGPU_TIME_SCALE=0.05 PRISM_NETWORK=$PRISM_SOURCE/tests/fixtures/network.json
    cd "$PRISM_SOURCE"
    # What is built already, with the flags it was built with.
    timeout 300 packaging/deb --build "$(dirname "$PRISM_BUILD")" --version 0.1.0 --output "$WORK" --reuse >"$WORK/packages" \
        2>"$WORK/packages.err" 3>&- || { cat "$WORK/packages.err"; return 0; }
    mkdir "$WORK/root"
    for name in $(cat "$WORK/packages"); do dpkg-deb -x "$name" "$WORK/root"; done
    cluster_start --nodes 2 --plugins "$WORK/root/usr/lib/prism/slurm" --libdir "$WORK/root/usr/lib/prism" \
        --bindir "$WORK/root/usr/bin" --softgpu "$WORK/root/usr/lib/prism/softgpu"
}

teardown_file() { remove_all; }

setup() {
    local reason
    reason=$(lacks_plugins)
    command -v dpkg-shlibdeps >/dev/null || reason="dpkg-dev is not installed"
    [ -z "$reason" ] || skip "$reason"
    cd "$WORK"
}

@test "make install puts everything under the prefix, make uninstall takes it away" {
    local at="$WORK/installed" name
    install_as() { timeout 300 make --no-print-directory -C "$PRISM_SOURCE" BUILD="$(dirname "$PRISM_BUILD")" prefix="$at" "$1" >/dev/null 3>&-; }
    install_as install
    for name in "$PRISM_BUILD"/bin/*; do [ -x "$at/bin/${name##*/}" ] || { echo "$name is not installed"; false; }; done
    for name in spank_prism cli_filter_prism job_submit_prism; do [ -e "$at/lib/prism/slurm/$name.so" ]; done
    [ -e "$at/lib/libprism.so" ]
    [ -e "$at/lib/softgpu/libnccl.so.2" ]
    run cat "$at"/share/doc/prism/examples/{plugstack,slurm,prism}.conf
    has "optional $at/lib/prism/slurm/spank_prism.so libdir=$at/lib bindir=$at/bin"
    grep -qE "^PluginDir=/.*:$at/lib/prism/slurm$" <<<"$output"
    has_not '@[A-Z_]+@'
    # The examples have what docs/slurm.md has.
    for name in $(grep -oE '^[A-Z][A-Za-z]+=' "$at/share/doc/prism/examples/slurm.conf"); do grep -q "^    $name" "$PRISM_SOURCE/docs/slurm.md"; done
    for name in $(sed -n '/^    \[policy\]/,/^$/s/^    \([a-z-]*\) = .*/\1/p' "$PRISM_SOURCE/docs/slurm.md"); do
        grep -qE "^#?$name = " <<<"$output" || { echo "prism.conf lacks $name"; false; }
    done
    run "$at/bin/prism" --version
    says "prism 0.1.0"
    install_as uninstall
    [ -z "$(find "$at" -type f -o -type l)" ] || { find "$at" -type f; false; }
}

@test "three packages, lintian finds no errors, one version and release for all" {
    [ "$(wc -l <packages)" -eq 3 ] || { cat packages packages.err; false; }
    run dpkg-deb -f "$WORK/prism-slurm_0.1.0_$(dpkg --print-architecture).deb" Depends
    local release
    release=$(inside srun --version | sed -E 's/^[^0-9]*([0-9]+\.[0-9]+).*/\1/')
    grep -qE "^prism \(= 0.1.0\), slurm-client \(>= $release\), slurm-client \(<< [0-9.]+\), libc6" <<<"$output"
    [ -x root/usr/bin/prismd ]
    [ -e root/usr/lib/prism/libprism.so ]
    [ -e root/usr/share/doc/prism-slurm/examples/slurm.conf ]
    grep -qx 'optional /usr/lib/prism/slurm/spank_prism.so libdir=/usr/lib/prism bindir=/usr/bin' \
        root/usr/share/doc/prism-slurm/examples/plugstack.conf
    command -v lintian >/dev/null || skip "lintian is not installed"
    # A run path that only --reuse keeps: the developer's own flags.
    run lintian --allow-root --suppress-tags custom-library-search-path $(cat packages)
    has_not '^E:'
}

@test "a step of the unpacked packages" {
    run inside srun -n 4 --gpus-per-node=4 --prism-emulate=4 --prism-gpus-per-node=4 --prism-assistants=0 \
        --prism-trace="$WORK/trace" "$PRISM_BUILD/test/looper" fault 3
    [ "$status" -eq 0 ]
    has "rank 0 done"
    (
        unset LD_PRELOAD
        export LD_LIBRARY_PATH=$WORK/root/usr/lib/prism/softgpu SOFTGPU_DIR=$CLUSTER/softgpu
        timeout 300 root/usr/bin/prism run --emulate=4 --gpus-per-node=4 --assistants=0 --trace="$WORK/trace" -- \
            "$PRISM_BUILD/test/looper" fault 3 3>&- >alone
    )
    grep -q '^rank 0 done' alone
}

@test "plugins for another release of Slurm" {
    mkdir -p other
    cp -r "$(dirname "$(gcc -E -x c - <<<'#include <slurm/spank.h>' | sed -n 's/^# 1 "\(.*\/slurm\/spank.h\)".*/\1/p' | head -n 1)")" other/
    sed -i 's/^#define SLURM_VERSION_NUMBER .*/#define SLURM_VERSION_NUMBER 0x170b04/' other/slurm/slurm_version.h
    timeout 300 make -j2 --no-print-directory -C "$PRISM_SOURCE" BUILD="$WORK/b23" SLURM_INCLUDE="$WORK/other" \
        "$WORK"/b23/release/lib/slurm/{spank_prism,cli_filter_prism,job_submit_prism}.so 3>&-
    cp "$CLUSTER/etc/plugstack.conf" plugstack.saved
    sed "s|[^ ]*/spank_prism.so|$WORK/b23/release/lib/slurm/spank_prism.so|" plugstack.saved >"$CLUSTER/etc/plugstack.conf"
    run inside root/usr/bin/prism doctor
    cp plugstack.saved "$CLUSTER/etc/plugstack.conf"
    [ "$status" -eq 71 ]
    grep -qE "^BAD +spank_prism +$WORK/b23/.*/spank_prism.so is for Slurm 23.11, this is " <<<"$output"
    says "build it with SLURM_INCLUDE="
}

checked() { grep -qE "^$1 +$2 +$3" <<<"$output" || { echo "not '$1 $2 $3' in:"; echo "$output"; return 1; }; }

@test "doctor on a node and in a job finds everything in order" {
    run inside root/usr/bin/prism doctor
    [ "$status" -eq 0 ]
    has "This is a compute node."
    checked good "Slurm's controller" 'Slurm [0-9]'
    checked good munge 'munged answers'
    for name in spank_prism cli_filter/prism job_submit/prism; do checked good "$name" "$WORK/root/usr/lib/prism/slurm/"; done
    checked good comments AccountingStoreFlags
    checked good licences 'prism_rank and prism_gpu, both TRES'
    checked good accounting 'slurmdbd answers'
    run inside srun --gpus-per-node=2 root/usr/bin/prism doctor --json
    [ "$status" -eq 0 ]
    python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["place"] == "job", d
assert [c["found"].endswith("GPUs 0,1") for c in d["checks"] if c["check"] == "this job"] == [True], d' <<<"$output"
}

@test "doctor on a login node: no GPU is no fault there" {
    [ ! -e /dev/nvidiactl ] || skip "this machine has a GPU"
    printf '#!/bin/sh\n[ "$3" = nodes ] && exec echo "NodeName=far NodeHostName=far "\nexec %s "$@"\n' "$(command -v scontrol)" >scontrol
    chmod 755 scontrol
    run inside env PATH="$WORK:$PATH" LD_LIBRARY_PATH= root/usr/bin/prism doctor
    [ "$status" -eq 0 ]
    has "This is a login node."
    checked warn 'CUDA driver' ''
    says 'srun --gpus-per-node=1 prism doctor'
}

@test "doctor says what is missing and how to mend it" {
    cp "$CLUSTER/etc/slurm.conf" slurm.saved
    sed -E -e '/^Licenses=/d' -e '/^CliFilterPlugins=/d' -e 's/^(AccountingStoreFlags=).*/\1job_env/' slurm.saved >"$CLUSTER/etc/slurm.conf"
    printf '[policy]\nmax-ranks = x\n' >"$CLUSTER/etc/prism.conf"
    mv root/usr/lib/prism/libprism.so aside
    inside scontrol reconfigure
    run inside env PRISM_LIBRARY="$WORK/aside" root/usr/bin/prism doctor
    mv aside root/usr/lib/prism/libprism.so
    rm "$CLUSTER/etc/prism.conf"
    cp slurm.saved "$CLUSTER/etc/slurm.conf"
    inside scontrol reconfigure
    [ "$status" -eq 71 ]
    checked BAD spank_prism "$WORK/root/usr/lib/prism/libprism.so is not there"
    checked BAD cli_filter/prism 'CliFilterPlugins='
    checked BAD policy "$CLUSTER/etc/prism.conf: line 2: max-ranks"
    checked warn comments 'the database does not keep comments'
    checked warn licences 'prism_rank and prism_gpu are not declared'
    says 'AccountingStoreFlags=job_comment in slurm.conf'
    says 'Licenses=prism_rank:1000000,prism_gpu:1000000 in slurm.conf'
    # No munge, no controller.
    run inside env PATH="$WORK/none" SLURM_CONF="$CLUSTER/etc/slurm.conf" "$WORK/root/usr/bin/prism" doctor
    checked '(good|warn)' 'open files' '' # it has looked at the rest
    has_not "^BAD +Slurm"
    sed "s|^SlurmctldPort=.*|SlurmctldPort=1|; s|munge/sock|munge/nosock|" slurm.saved >gone.conf
    run inside env SLURM_CONF="$WORK/gone.conf" root/usr/bin/prism doctor
    [ "$status" -eq 71 ]
    checked BAD "Slurm's controller" 'slurmctld does not answer'
    has_not 'does not answer: *$'
    printf '#!/bin/sh\necho "munge: Error: no socket" >&2\nexit 1\n' >munge
    chmod 755 munge
    run inside env PATH="$WORK:$PATH" root/usr/bin/prism doctor
    rm munge
    [ "$status" -eq 71 ]
    checked BAD munge 'munge: Error: no socket'
    says 'start munged'
}
