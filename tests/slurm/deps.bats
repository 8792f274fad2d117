# contrib/deps.sh against stand-ins of dpkg-query, apt-get and sudo: nothing is installed here.

load helper
deps=$PRISM_SOURCE/contrib/deps.sh

setup() {
    command -v dpkg-query >/dev/null || skip "neither Debian nor Ubuntu"
    fake=$BATS_TEST_TMPDIR
    mkdir -p "$fake/bin"
    export PRISM_POLICY_RC_D=$fake/policy-rc.d PRISM_DEPS_LOCK=$fake/lock PATH=$fake/bin:$PATH
    # Everything is installed but these.
    cat >"$fake/bin/dpkg-query" <<E
#!/bin/bash
shift 2
for p in "\$@"; do case " \$(cat $fake/missing) " in *" \$p "*) ;; *) echo "installed/\$p" ;; esac; done
E
    cat >"$fake/bin/apt-get" <<E
#!/bin/bash
echo "\$*" >>$fake/calls
[ -x $fake/policy-rc.d ] && $fake/policy-rc.d; echo "policy \$?" >>$fake/calls
case "\$*" in *install*) echo "Setting up something"; exit \$(cat $fake/rc) ;; esac
E
    printf '#!/bin/sh\nexit 0\n' >"$fake/bin/apt-cache"
    printf '#!/bin/sh\ncase $1 in -u) echo %s;; esac\n' "${FAKE_UID:-0}" >"$fake/bin/id"
    chmod 755 "$fake"/bin/*
    echo 0 >"$fake/rc"
    : >"$fake/missing"
}

@test "nothing missing: silent and fast" {
    run "$deps"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ ! -e "$fake/calls" ]
}

@test "installs only what is missing, starts no service, restores the policy" {
    echo "munge bats" >"$fake/missing"
    echo "the administrator's" >"$fake/policy-rc.d"
    run "$deps"
    [ "$status" -eq 0 ]
    says "installing 2 packages"
    run cat "$fake/calls"
    says "--no-install-recommends"
    grep -qE 'install bats munge$' "$fake/calls"
    has "policy 101"
    [ "$(cat "$fake/policy-rc.d")" = "the administrator's" ]
    [ "$(grep -c ' update$' "$fake/calls")" -eq 1 ]
}

@test "a failing installation says so and still restores the policy" {
    echo "munge" >"$fake/missing"
    echo 100 >"$fake/rc"
    run "$deps"
    [ "$status" -eq 1 ]
    says "could not install: munge"
    [ ! -e "$fake/policy-rc.d" ]
}

@test "neither root nor sudo: the command to run as root" {
    echo "munge" >"$fake/missing"
    printf '#!/bin/sh\necho 1000\n' >"$fake/bin/id"
    # No sudo in a path of its own.
    mkdir "$fake/path"
    for program in bash sort comm apt-cache cat mktemp; do ln -s "$(command -v $program)" "$fake/path/"; done
    ln -s "$fake/bin/dpkg-query" "$fake/bin/id" "$fake/bin/apt-get" "$fake/path/"
    PATH=$fake/path run "$deps" --missing
    [ "$output" = munge ]
    PATH=$fake/path run bash "$deps"
    [ "$status" -eq 1 ]
    says "As root: apt-get install --no-install-recommends munge"
}

@test "sudo is used by an ordinary user" {
    echo "munge" >"$fake/missing"
    printf '#!/bin/sh\necho 1000\n' >"$fake/bin/id"
    printf '#!/bin/sh\necho "sudo $*"\n' >"$fake/bin/sudo"
    chmod 755 "$fake/bin/sudo"
    run "$deps"
    [ "$status" -eq 0 ]
    says "contrib/deps.sh --install munge"
}

@test "make deps and something else: the rest is read after the packages are there, however many jobs" {
    cd "$PRISM_SOURCE"
    run env -u MAKEFLAGS -u MAKELEVEL make -n -j4 print-BIN deps help
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = contrib/deps.sh ]
    [[ ${lines[1]} == *"--no-print-directory print-BIN help" ]]
}
