#!/usr/bin/env python3
"""Whether a kernel's first launch returns while a gate is closed, and what goes on elsewhere meanwhile.

  first_launch.py          a line of JSON for each operation, first launch and second; CUDA_MODULE_LOADING as it is

CUDA loads kernels when they are launched first and may wait for the whole context to do so (CUDA C++ Programming Guide, Lazy
Loading). The default stream waits for an event behind a closed gate of another stream, as PyTorch's does for NCCL's.
returned: within a second, before the gate opened. write_ms, out_ms: a word written and a copy to the host on a third stream
meanwhile; -1: not before the gate opened.
"""

import ctypes
import json
import os
import threading
import time

import torch

cuda = ctypes.CDLL("libcuda.so.1")


def must(result):
    if result:
        raise SystemExit(f"CUDA error {result}")


class Gate:
    def __init__(self):
        host, device = ctypes.c_void_p(), ctypes.c_uint64()
        must(cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(4096), 2))
        must(cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(device), host, 0))
        self.words = ctypes.cast(host, ctypes.POINTER(ctypes.c_uint32))
        self.device, self.value = device.value, 0
        self.words[0] = 0

    def close(self, stream):
        self.value += 1
        must(cuda.cuStreamWaitValue32_v2(ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(self.device), ctypes.c_uint32(self.value), 0))

    def open(self):
        self.words[0] = self.value

    def write(self, stream):
        must(cuda.cuStreamWriteValue32_v2(ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(self.device + 4), ctypes.c_uint32(1), 0))


def timed(work):
    """(thread, list that gets the seconds when it is over)"""
    took = []

    def run():
        began = time.monotonic()
        work()
        took.append(time.monotonic() - began)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, took


def main():
    began = time.monotonic()
    torch.cuda.init()
    gated, elsewhere, gate = torch.cuda.Stream(), torch.cuda.Stream(), Gate()
    x = torch.randn(1 << 20, device="cuda")
    few = [torch.randn(1000, device="cuda") for _ in range(40)]
    m = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    host, source = torch.empty(1 << 18, pin_memory=True), torch.ones(1 << 18, device="cuda")
    with torch.cuda.stream(elsewhere):
        host.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({"loading": os.environ.get("CUDA_MODULE_LOADING", ""), "start_seconds": round(time.monotonic() - began, 2),
                      "device_bytes_used": total - free}), flush=True)

    def copy_out():
        with torch.cuda.stream(elsewhere):
            host.copy_(source, non_blocking=True)
        elsewhere.synchronize()

    def write_word():
        gate.write(elsewhere)
        elsewhere.synchronize()

    operations = {"foreach_norm": lambda: torch._foreach_norm(few, 2.0), "sort": lambda: x.sort(), "cumsum": lambda: x.cumsum(0),
                  "matmul": lambda: m @ m, "adam": lambda: torch._foreach_addcdiv_(few, few, few, 1e-3)}
    for name, operation in operations.items():
        for n in ("first", "second"):
            gate.close(gated)
            event = torch.cuda.Event()
            event.record(gated)
            torch.cuda.current_stream().wait_event(event)
            launch, launched = timed(operation)
            launch.join(1)
            row = {"operation": name, "launch": n, "returned": bool(launched)}
            others = [("write_ms", *timed(write_word)), ("out_ms", *timed(copy_out))]
            for key, thread, took in others:
                thread.join(1)
                row[key] = round(1e3 * took[0], 2) if took else -1
            gate.open()
            launch.join()
            for _, thread, _ in others:
                thread.join()
            torch.cuda.synchronize()
            print(json.dumps(row), flush=True)


main()
