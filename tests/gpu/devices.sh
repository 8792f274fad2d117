#!/usr/bin/env bash
# devices.sh BIN LIB OUT: a node's devices on one GPU, in capture of four ranks: PyTorch, then a program with a static CUDA
# runtime (where there is nvcc).
#
#   BIN has prismd, LIB libprism.so; results go to OUT. PYTHON: an interpreter with PyTorch (python3).
# Prints what each rank says, "ok ..." or "failed ...", and the number of each; ends with 1 if anything failed.
set -u
bin=$(readlink -f "$1") lib=$(readlink -f "$2") out=$(readlink -f "$3")
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
python=$(command -v "${PYTHON:-python3}")
work=$(mktemp -d) && cd "$work" || exit 71
cat >network.json <<'J'
{"format": "prism-network", "version": 1, "links": {
 "intra_node": {"launch_seconds": 1e-5, "step_seconds": 2e-6, "bandwidth_bytes_per_second": 3e11, "eager_bytes": 65536, "measured": false},
 "inter_node": {"launch_seconds": 1e-5, "step_seconds": 8e-6, "bandwidth_bytes_per_second": 4e10, "eager_bytes": 65536, "measured": false}},
 "algorithms": {"tree_allreduce": true, "tree_rooted": true, "lockstep": false}, "fit_error": 0.0, "points": []}
J
capture() { # NAME RANKS DEVICES COMMAND...
    local name=$1 ranks=$2 devices=$3 rc=0
    shift 3
    PRISM_EMULATE=$ranks PRISM_GPUS_PER_NODE=$devices PRISM_SANDBOX=0 PRISM_ASSISTANTS=0 PRISM_PHASE=capture \
        PRISM_NETWORK=$work/network.json PRISM_TRACE=$work/trace-$name PRISM_LIBRARY=$lib/libprism.so \
        timeout 240 "$bin/prismd" "$@" >"$name.txt" 2>&1 || rc=$?
    if [ "$rc" -eq 0 ]; then
        echo "ok $name ends with 0"
    else
        echo "failed $name ends with $rc"
        tail -n 5 "$name.txt" | sed 's/^/    /'
        for log in trace-"$name"/logs/capture.rank*; do
            echo "    the end of $log:"
            tail -n 10 "$log" | sed 's/^/        /'
        done
    fi
    grep -hE '^(ok|failed) ' trace-"$name"/logs/capture.rank*
}
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    capture torch 4 4 "$python" "$here/devices.py" 4
    capture torch8 8 8 "$python" "$here/devices.py" 8
    cat >narrow.sh <<'S'
#!/bin/bash
export CUDA_VISIBLE_DEVICES=$LOCAL_RANK LOCAL_RANK=0
exec "$@"
S
    chmod +x narrow.sh
    capture narrow 4 4 ./narrow.sh "$python" "$here/devices.py" 1
    if command -v nvcc >/dev/null; then
        if nvcc -cudart=static -o devices "$here/devices.cu" -ldl >nvcc.txt 2>&1; then
            capture static 4 4 ./devices
            told=$(grep -l 'has the CUDA runtime linked in statically' trace-static/logs/capture.rank* | wc -l)
            [ "$told" -eq 3 ] && echo "ok static: ranks 1 to 3 are told" || echo "failed static: $told ranks are told, not 3"
        else
            echo "failed nvcc: $(tail -1 nvcc.txt)"
        fi
    else
        echo "skipped: no nvcc"
    fi
} | tee "$out/devices.txt"
cp ./*.txt "$out/" 2>/dev/null
tar czf "$out/devices-logs.tgz" trace-*/logs 2>/dev/null
ok=$(grep -c '^ok ' "$out/devices.txt") failed=$(grep -c '^failed ' "$out/devices.txt")
echo "ok: $ok, failed: $failed"
rm -rf "$work"
[ "$failed" -eq 0 ] && [ "$ok" -gt 0 ]
