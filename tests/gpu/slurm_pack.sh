#!/usr/bin/env bash
# slurm_pack.sh [--bin BIN] [DIR]: Slurm, munge and MariaDB of this machine as one archive, for a machine that has neither
# them nor a network (tests/gpu/slurm.sh unpacks it). Writes DIR/slurm.tar.xz (default build/gpuslurm).
#
#   --bin BIN   also the libraries that the programs in BIN and BIN/../lib need (default build/release/bin)
# The packages must be installed (contrib/deps.sh). Only a glibc at least as new as this machine's can run what is packed:
# glibc itself stays out. Exit code 0, 64 wrong usage, 71 something is missing.
set -u
export LC_ALL=C.UTF-8
PATH=$PATH:/usr/sbin:/sbin
usage() { echo "usage: tests/gpu/slurm_pack.sh [--bin BIN] [DIR]" >&2; exit 64; }
die() { echo "slurm_pack: $*" >&2; exit 71; }

bin=build/release/bin out=build/gpuslurm
while [ $# -gt 0 ]; do
    case $1 in
        --bin) [ $# -ge 2 ] || usage; bin=$2; shift 2 ;;
        -*) usage ;;
        *) out=$1; shift ;;
    esac
done
mkdir -p "$out" || exit 71
tree=$(mktemp -d) || exit 71
trap 'rm -rf "$tree"' EXIT

copy() { # path of a file; symbolic links followed: alternatives point out of the tree
    mkdir -p "$tree$(dirname "$1")" && cp -L "$1" "$tree$1" || die "cannot copy $1"
}

daemons=(munged mariadbd slurmdbd slurmctld slurmd slurmstepd)
clients=(mariadb mariadb-install-db my_print_defaults munge unmunge srun sbatch salloc scancel squeue sinfo sacct
    sacctmgr scontrol)
for name in "${daemons[@]}" "${clients[@]}"; do
    path=$(command -v "$name") || die "$name is not installed: run contrib/deps.sh"
    case $name in
        slurm*) path=/usr/sbin/$name ;; # Slurm looks for slurmstepd by this name, whatever it links to
    esac
    copy "$path"
done
plugins=
for each in /usr/lib/*/slurm-wlm /usr/lib/*/slurm /usr/lib64/slurm /usr/lib/slurm; do
    [ -e "$each/accounting_storage_slurmdbd.so" ] && plugins=$each && break
done
[ -n "$plugins" ] || die "Slurm's plugins were not found: run contrib/deps.sh"
mkdir -p "$tree$plugins" && cp -L "$plugins"/*.so* "$tree$plugins/" || exit 71
share=/usr/share/mysql
mkdir -p "$tree$share/english"
cp -L "$share"/*.sql "$tree$share/" && cp -rL "$share/charsets" "$tree$share/" &&
    cp -L "$share/english/errmsg.sys" "$tree$share/english/" || die "MariaDB's tables are not in $share"
# Help texts are of no use here, but the file must be there.
: >"$tree$share/fill_help_tables.sql"

# Their libraries. What belongs to glibc must be the target's.
programs=()
while IFS= read -r file; do programs+=("$file"); done < <(find "$tree" -type f \( -perm -u+x -o -name '*.so*' \))
[ ! -d "$bin" ] || programs+=("$bin"/* "$bin"/../lib/*.so* "$bin"/../lib/*/*.so*)
mkdir -p "$tree/lib"
for path in $(ldd "${programs[@]}" 2>/dev/null | sed -nE 's/.* => (\/[^ ]+) .*/\1/p' | sort -u); do
    case ${path##*/} in
        libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so* | libutil.so* | libnss_* | \
            ld-linux* | libslurmfull* | libprism.so | libcuda* | libnccl*) continue ;;
    esac
    cp -L "$path" "$tree/lib/" || die "cannot copy $path"
done
find "$tree" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-unneeded {} + 2>/dev/null

tar -C "$tree" -c . | xz -6 -T2 >"$out/slurm.tar.xz.part" && mv "$out/slurm.tar.xz.part" "$out/slurm.tar.xz" || exit 71
size=$(stat -c %s "$out/slurm.tar.xz")
echo "slurm_pack: $out/slurm.tar.xz, $((size / 1048576)).$((size % 1048576 * 10 / 1048576)) MiB, $(slurmctld -V)"
[ "$size" -le 20971520 ] || die "that is more than 20 MiB"
