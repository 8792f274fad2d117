#!/usr/bin/env bats
# Prism's c10d store against real PyTorch. PRISM_TEST_PYTHONS: interpreters that have torch, separated by blanks;
# default Debian's. The same file is meant for 2.x: PRISM_TEST_PYTHONS="/usr/bin/python3 /tmp/venv/bin/python".

setup_file() {
    local python
    export PYTHONS_WITH_TORCH=
    for python in ${PRISM_TEST_PYTHONS:-/usr/bin/python3}; do
        if "$python" -c 'import torch.distributed as d; assert d.is_available()' 2>/dev/null; then
            PYTHONS_WITH_TORCH="$PYTHONS_WITH_TORCH $python"
        elif [ -n "$PRISM_TEST_PYTHONS" ]; then
            echo "$python of PRISM_TEST_PYTHONS cannot import torch.distributed" >&2
            return 1
        fi
    done
}

@test "PyTorch's TCPStore clients and a gloo process group work on Prism's store" {
    [ -n "$PYTHONS_WITH_TORCH" ] || skip "no PyTorch: apt-get install python3-torch, or set PRISM_TEST_PYTHONS"
    local python
    for python in $PYTHONS_WITH_TORCH; do
        run timeout 240 "$python" "$BATS_TEST_DIRNAME/torch_store.py" "$PRISM_BUILD/test/c10d_server"
        echo "$output"
        [ "$status" -eq 0 ]
    done
}
