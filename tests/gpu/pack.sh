#!/usr/bin/env bash
# pack.sh [BUILD [FOLDER]]: what tests/gpu/run needs of a built tree, small enough to carry to a machine with a GPU.
#
#   BUILD   a flavour's folder (default build/release)     FOLDER   default build/gpu; becomes bin/, lib/, test/ and dep/
#
# Binaries are stripped. dep/ has the shared libraries that they link and that are not part of every distribution's
# C library: run gives it to LD_LIBRARY_PATH. Binaries run where glibc is at least as new as here.
set -eu
cd "$(dirname "$(readlink -f "$0")")/../.."
build=${1:-build/release} to=${2:-build/gpu}
[ -x "$build/bin/prismd" ] || { echo "pack.sh: $build/bin/prismd is not built; run make all first" >&2; exit 64; }
mkdir -p "$to"
rm -rf "$to/bin" "$to/lib" "$to/test" "$to/dep"
mkdir -p "$to/bin" "$to/lib" "$to/test" "$to/dep"
for program in "$build"/bin/*; do
    [ ! -f "$program" ] || cp "$program" "$to/bin/"
done
# Programs that measure.
for program in gpu_contexts gpu_queue gpu_cost gpu_fill gpu_moves gpu_pinned gpu_both gpu_hand gpu_vmm ballast pace_arm; do
    [ ! -f "$build/test/$program" ] || cp "$build/test/$program" "$to/test/"
done
cp -P "$build"/lib/*.so "$to/lib/"
for folder in softgpu slurm; do
    [ -d "$build/lib/$folder" ] && cp -a "$build/lib/$folder" "$to/lib/"
done
find "$to/bin" "$to/lib" "$to/test" -type f ! -name '*.sh' ! -name '*.json' -exec strip --strip-unneeded {} + 2>/dev/null || true
find "$to/bin" "$to/lib" "$to/test" -type f -print0 | LD_LIBRARY_PATH=$to/lib/softgpu xargs -0 ldd 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|libstdc\+\+|libcuda|libcudart|libnccl)[.-]' |
    while read -r library; do cp -L "$library" "$to/dep/"; done
du -sh "$to" | awk '{ print $2 ": " $1 }'
