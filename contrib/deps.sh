#!/usr/bin/env bash
# Install the Debian or Ubuntu packages that building and testing Prism need; only those that are missing.
#
#   contrib/deps.sh            install what is missing (as root, or through sudo); silent when nothing is
#   contrib/deps.sh --list     print every package, one a line
#   contrib/deps.sh --missing  print the missing ones, one a line
#
# PRISM_DEPS=skip does nothing (the packages are there under other names). Services that the packages bring (munge,
# MariaDB, Slurm) are not started: the tests run private instances (contrib/onebox). On a machine where one of them
# already runs, nothing changes.
set -u
me=contrib/deps.sh

build=(gcc libc6-dev make pkg-config libconfig-dev libzstd-dev libxxhash-dev libevent-dev uthash-dev libjansson-dev
       libslurm-dev libmunge-dev libpmix-dev libcairo2-dev)
tests=(libcmocka-dev bats python3 procps util-linux hostname openmpi-bin libopenmpi-dev dpkg-dev)
onebox=(slurm-wlm slurmdbd slurm-wlm-mysql-plugin slurm-wlm-basic-plugins munge mariadb-server)
# Tests that use these say that they are skipped where the distribution lacks them.
optional=(python3-torch python3-protobuf protobuf-compiler lintian mandoc bubblewrap)

say() { printf 'prism: %s\n' "$*"; }
die() { printf 'prism: %s: %s\n' "$me" "$*" >&2; exit 1; }

# Those of the arguments that are not installed.
missing_of() {
    local have
    have=$(dpkg-query -W -f='${db:Status-Status}/${Package}\n' "$@" 2>/dev/null)
    for package in "$@"; do
        case $'\n'$have$'\n' in *$'\n'installed/"$package"$'\n'*) ;; *) echo "$package" ;; esac
    done
}

# Packages must not start their services while we install: Debian asks policy-rc.d, 101 means no. The administrator's
# own file comes back afterwards, also when a run before this one was killed half-way.
policy=${PRISM_POLICY_RC_D:-/usr/sbin/policy-rc.d}
hold_services() {
    if [ -e "$policy" ] && ! grep -q 'prism contrib/deps.sh' "$policy"; then
        mv "$policy" "$policy.before-prism" || die "cannot move $policy aside"
    fi
    printf '#!/bin/sh\n# prism contrib/deps.sh: no service starts while its packages install\nexit 101\n' >"$policy" &&
        chmod 755 "$policy" || die "cannot write $policy, so that no service starts"
}
release_services() {
    if [ -e "$policy.before-prism" ]; then
        mv -f "$policy.before-prism" "$policy"
    else
        rm -f "$policy"
    fi
}

# As root. Arguments: packages.
install() {
    # Global: the trap below runs after this function.
    log=
    exec 9>"${PRISM_DEPS_LOCK:-/run/prism-deps.lock}" && flock 9 || die "cannot lock /run/prism-deps.lock"
    log=$(mktemp) || exit 1
    trap 'release_services; rm -f "$log"' EXIT
    trap 'exit 130' INT TERM HUP
    hold_services
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l APT_LISTCHANGES_FRONTEND=none
    say "fetching the package lists (apt-get update)"
    apt-get -q -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 ||
        { tail -n 5 "$log" >&2; say "apt-get update failed; trying with the lists there are" >&2; }
    local package wanted=()
    for package in "$@"; do
        if [[ " ${optional[*]} " == *" $package "* ]] && ! apt-cache show "$package" >/dev/null 2>&1; then
            say "this distribution has no package $package: the tests that need it will be skipped"
        else
            wanted+=("$package")
        fi
    done
    [ ${#wanted[@]} -gt 0 ] || return 0
    apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install "${wanted[@]}" 2>&1 9>&- |
        tee "$log" | grep --line-buffered -E '^(Need to get|After this operation|Setting up|E:)'
    if [ "${PIPESTATUS[0]}" -ne 0 ]; then
        tail -n 20 "$log" >&2
        die "apt-get could not install: ${wanted[*]}"
    fi
    say "${#wanted[@]} packages installed; none of their services was started"
}

mode=${1:-}
[ "${PRISM_DEPS:-}" = skip ] && exit 0
all=("${build[@]}" "${tests[@]}" "${onebox[@]}" "${optional[@]}")
case $mode in
    --list) printf '%s\n' "${all[@]}"; exit 0 ;;
    --install) shift; install "$@"; exit ;;
    '' | --missing) ;;
    *) die "unknown argument '$mode' (--list, --missing or nothing)" ;;
esac

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "this is neither Debian nor Ubuntu. Install what these packages hold, then say PRISM_DEPS=skip: ${all[*]}"
mapfile -t missing < <(missing_of "${all[@]}")
[ "$mode" = --missing ] && { [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}"; exit 0; }
# An optional package that the distribution lacks is missing for ever: that is no reason to ask for root.
if [ ${#missing[@]} -gt 0 ] && [ -z "$(comm -23 <(printf '%s\n' "${missing[@]}" | sort) \
        <(printf '%s\n' "${optional[@]}" | sort))" ] && ! apt-cache show "${missing[@]}" >/dev/null 2>&1; then
    missing=()
fi
[ ${#missing[@]} -eq 0 ] && exit 0

say "installing ${#missing[@]} packages that building and testing need: ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
    install "${missing[@]}"
elif command -v sudo >/dev/null; then
    sudo "${BASH:-bash}" "$0" --install "${missing[@]}"
else
    die "installing needs root, and there is no sudo. As root: apt-get install --no-install-recommends ${missing[*]}"
fi
