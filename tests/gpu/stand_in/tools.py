"""In rehearsals: copies.py and checkpoint_process.py of tests/gpu/tools, with host memory and a file in place of a device.

The numbers are measured here, and mean nothing but that the scripts which read them work.
"""

import json
import sys
import tempfile
import time

COUNT = 64 << 20


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def copies():
    a, b = bytearray(COUNT), bytearray(COUNT)

    def copy():
        b[:] = a

    print(json.dumps({"bytes": COUNT, "gb_per_second": {n: [COUNT / seconds(copy) / 1e9 for _ in range(5)] for n in ("out", "in", "both")}}))


def checkpoint_process():
    with tempfile.TemporaryFile() as file:
        out = seconds(lambda: (file.write(bytearray(COUNT)), file.flush()))
        back = seconds(lambda: (file.seek(0), file.read()))
    print(json.dumps({"bytes": COUNT, "errors": [], "checkpoint_seconds": out, "restore_seconds": back, "child": "stand-in"}))


{"copies": copies, "checkpoint_process": checkpoint_process}[sys.argv[1]]()
