# prism plan: the shape that srun would get, and minutes that do not grow with the world once it is captured.

load helper

setup() {
    own_environment
    prism=$PRISM_BUILD/bin/prism
    cd "$BATS_TEST_TMPDIR"
}

@test "the request's shape, as text and as JSON" {
    run "$prism" plan --nodes=1024 --ntasks-per-node=8 --gpus-per-node=8 --sandbox=0-7 --assistants=4 --devices-per-node=8
    [ "$status" -eq 0 ]
    says "8192 ranks, 1024 nodes x 8 GPUs"
    says "2 nodes x 6 GPUs: 8 for sandbox ranks, 4 for assistants"
    "$prism" plan --nodes=16 --ntasks-per-node=1 --gpus-per-node=8 --json | python3 -c '
import json, sys
p = json.load(sys.stdin)
assert (p["world"], p["tasks"], p["nodes"], p["physical_nodes"], p["devices"]) == (128, 16, 16, 1, 2), p
m = p["minutes"]
assert abs(m["total"] - m["capture"] - m["calibrate"] - m["emulate"]) < 1e-6, m'
}

@test "assistants and minutes at PP 2 to 16 are flat when the world grows sixteenfold" {
    python3 - "$prism" <<'E'
import json, subprocess, sys
def plan(world, pp):
    tp, stage = 8, world // pp
    sandbox = ",".join(str(s * stage) for s in range(pp)) # a rank of every stage
    out = subprocess.run([sys.argv[1], "plan", f"--emulate={world}", f"--layout=tp:{tp},dp:{stage // tp},pp:{pp}",
                          f"--sandbox={sandbox}", "--iteration-seconds=12", "--json"], check=True, capture_output=True)
    return json.loads(out.stdout)
devices = []
for pp in 2, 4, 8, 16:
    small, large = plan(512, pp), plan(8192, pp)
    for key in "assistants", "devices", "physical_nodes":
        assert small[key] == large[key], (pp, key, small, large)
    for phase in "calibrate", "emulate":
        assert small["minutes"][phase] == large["minutes"][phase], (pp, phase)
    assert large["minutes"]["capture"] > small["minutes"]["capture"] # every rank runs there
    devices.append(large["devices"])
assert devices == [4, 8, 16, 32], devices
E
}

@test "calibration that --iterations ends goes on for longer" {
    calibration() {
        "$prism" plan --emulate=8 --gpus-per-node=8 --iteration-seconds=60 --startup-seconds=0 --json "$@" |
            python3 -c 'import json, sys; p = json.load(sys.stdin); print(p["minutes"]["calibrate"] / p["model"]["slices"])'
    }
    [ "$(calibration)" = 5.0 ]
    [ "$(calibration --iterations=5)" = 12.0 ]
}

@test "a trace tells what is left to do, and for how long" {
    export SOFTGPU_DIR=$BATS_TEST_TMPDIR/sg SOFTGPU_TIME_SCALE=0.05 SOFTGPU_DEVICES=2 LD_LIBRARY_PATH=$PRISM_BUILD/lib/softgpu
    export PRISM_NETWORK=$PRISM_SOURCE/tests/fixtures/network.json
    mkdir -m 700 sg
    timeout 300 "$prism" run --emulate=8 --trace=t -- "$PRISM_BUILD/test/looper" fault 6 >/dev/null 2>err 3>&- || { cat err; false; }
    run "$prism" plan --emulate=8 --trace=t --json
    [ "$status" -eq 0 ]
    python3 -c '
import json, sys
p = json.loads(sys.argv[1])
assert p["minutes"]["capture"] == p["minutes"]["calibrate"] == 0, p
assert p["model"]["iteration"] == "predicted from the trace" and p["model"]["iterations"] == 6, p
assert 0 < p["model"]["iteration_seconds"] < 1, p' "$output"
    run "$prism" plan --emulate=16 --trace=t
    [ "$status" -eq 65 ]
    says "is of a world of 8, the request of 16"
}

@test "wrong requests say what is wrong" {
    run "$prism" plan
    [ "$status" -eq 64 ]
    says "give -N, -n or --gpus-per-node"
    run "$prism" plan --nodes=3 --emulate=8
    [ "$status" -eq 64 ]
    says "8 ranks are not 3 nodes"
    run "$prism" plan --emulate=8 --iteration-seconds=long
    [ "$status" -eq 64 ]
    says "--iteration-seconds=long: seconds are wanted"
    run "$prism" plan --emulate=8 train.py
    [ "$status" -eq 64 ]
}
