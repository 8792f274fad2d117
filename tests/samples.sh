#!/usr/bin/env bash
# samples.sh BUILD OUT [PRESET…]: sample traces, each a folder of OUT, with checksums in OUT/SHA256SUMS (sha256sum -c). Without names: a captured
# and calibrated run of moetrain on software GPUs (8 ranks) and every preset of prism synth.
set -eu
build=$(cd "$1" && pwd) source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
export PATH=$build/bin:$PATH LD_LIBRARY_PATH=$build/lib/softgpu
presets=("$@")
if [ $# -eq 0 ]; then
    mapfile -t presets < <(cd "$source/etc/synth" && printf '%s\n' *.conf | sed 's/\.conf$//')
    SOFTGPU_DIR=$(mktemp -d)
    export SOFTGPU_DIR
    trap 'rm -rf "$SOFTGPU_DIR"' EXIT
    rm -rf "$out/moetrain-8"
    prism run --emulate=8 --sandbox=5 --trace="$out/moetrain-8" --network="$source/tests/fixtures/network.json" -- \
        moetrain --tp=2 --pp=2 --ep=2 --iterations=4 --exact-sums
fi
for preset in "${presets[@]}"; do
    rm -rf "${out:?}/$preset"
    prism synth "$preset" -o "$out/$preset"
done
cd "$out"
find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
echo "$out: $(wc -l <SHA256SUMS) files, $(du -sh . | cut -f1)"
