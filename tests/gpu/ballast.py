#!/usr/bin/env python3
"""Measure the ballast table of this machine's NCCL: device memory that a communicator costs a rank, by its size.

  tests/gpu/ballast.py --helper BUILD/test/ballast --output etc/ballast/nccl-VERSION.json [--sizes 2,3,4,8,16] [--devices 2]

The table's format: docs/formats/ballast.md. Sizes above the number of devices share them, and NCCL takes their ranks for
different hosts: those numbers are of its network transport.
"""

import argparse
import json
import os
import subprocess
import sys


def devices():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return len(visible.split(","))
    try:
        out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
        return max(1, len(out.strip().splitlines()))
    except (OSError, subprocess.CalledProcessError):
        return 2


def measure(o, size, *more):
    """One row; None where it fails."""
    try:
        done = subprocess.run([o.helper, str(size), str(min(size, o.devices)), *more], capture_output=True, text=True,
                              timeout=o.seconds, start_new_session=True)
    except subprocess.TimeoutExpired:
        print(f"ballast: size {size} took more than {o.seconds:.0f} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"ballast: size {size}: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    print(f"ballast: {done.stdout.strip()}", file=sys.stderr)
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--helper", required=True)
    p.add_argument("--output", required=True)
    p.add_argument("--sizes", default="2,3,4,8,16")
    p.add_argument("--seconds", type=float, default=60, help="most for one size")
    p.add_argument("--check", action="store_true", help="also the first size with messages alone")
    p.add_argument("--devices", type=int, default=min(2, devices()))
    o = p.parse_args()
    rows = []
    for size in map(int, o.sizes.split(",")):
        row = measure(o, size)
        if not row:
            break
        rows.append(row)
    if rows and o.check:
        # Does what a use costs depend on whether there was the other before?
        alone = measure(o, rows[0]["size"], "messages")
        if alone:
            parts = ("created_bytes", "process_created_bytes", "message_bytes", "process_message_bytes")
            print(f"ballast: messages alone {sum(alone[p] for p in parts)}, as parts {sum(rows[0][p] for p in parts)}", file=sys.stderr)
    if not rows:
        return 1
    channels = os.environ.get("NCCL_MAX_NCHANNELS") or os.environ.get("NCCL_MAX_CTAS")
    table = {"format": "prism-ballast", "version": 1, "nccl": rows[0]["nccl"], "channels": int(channels) if channels else 0,
             "process_bytes": sum(max(0, rows[0][f"process_{stage}_bytes"]) for stage in ("created", "collective", "message")),
             "process_collective_bytes": max(0, rows[0]["process_collective_bytes"]),
             "process_message_bytes": max(0, rows[0]["process_message_bytes"]),
             "sizes": [{"size": r["size"], "bytes": max(0, r["created_bytes"] + r["collective_bytes"] + r["message_bytes"]),
                        "created_bytes": r["created_bytes"], "collective_bytes": r["collective_bytes"],
                        "message_bytes": r["message_bytes"], "devices": r["devices"]} for r in rows]}
    with open(o.output, "w", encoding="utf-8") as f:
        json.dump(table, f, indent=1)
        f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
