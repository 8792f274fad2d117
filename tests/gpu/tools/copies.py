"""Plain pinned copies: GB/s out, in, and both at once. tools/copies.py GIB → one line of JSON."""

import json
import sys
import time

import torch


def main():
    count = int(float(sys.argv[1]) * (1 << 30))
    device = [torch.empty(count, dtype=torch.uint8, device="cuda") for _ in range(2)]
    host = [torch.empty(count, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def timed(out, into):
        torch.cuda.synchronize()
        start = time.perf_counter()
        if out:
            with torch.cuda.stream(streams[0]):
                host[0].copy_(device[0], non_blocking=True)
        if into:
            with torch.cuda.stream(streams[1]):
                device[1].copy_(host[1], non_blocking=True)
        torch.cuda.synchronize()
        return (out + into) * count / (time.perf_counter() - start) / 1e9

    result = {name: [timed(*way) for _ in range(5)] for name, way in
              (("out", (1, 0)), ("in", (0, 1)), ("both", (1, 1)))}
    print(json.dumps({"bytes": count, "gb_per_second": result}))


main()
