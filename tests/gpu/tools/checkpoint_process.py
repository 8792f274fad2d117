"""cuCheckpointProcess*: seconds to take a process off the device and back. tools/checkpoint_process.py GIB → JSON."""

import ctypes
import json
import subprocess
import sys
import time

CHILD = """
import sys, torch
x = torch.ones(int(float(sys.argv[1]) * 2**30 / 4), device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.readline()
print("sum", x[:1000].sum().item(), flush=True)
"""


def measure(child):
    driver, arguments = ctypes.CDLL("libcuda.so.1"), (ctypes.c_char * 64)()
    result = {"bytes": int(float(sys.argv[1]) * (1 << 30)), "errors": [driver.cuInit(0)]}
    for name in ("Lock", "Checkpoint", "Restore", "Unlock"):
        start = time.perf_counter()
        result["errors"].append(getattr(driver, "cuCheckpointProcess" + name)(child.pid, arguments))
        result[name.lower() + "_seconds"] = time.perf_counter() - start
    child.stdin.write("go\n")
    child.stdin.flush()
    result["child"] = child.stdout.readline().strip()
    child.wait(60)
    return result


def main():
    child = subprocess.Popen([sys.executable, "-c", CHILD, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        child.stdout.readline()
        print(json.dumps(measure(child)))
    finally:
        # What it holds on the device would be missing in the stage that comes next.
        child.kill()
        child.wait()


main()
