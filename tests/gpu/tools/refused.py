"""Things that Prism refuses, one a run: tools/refused.py graph|several|gloo|none. Exits 0 where they work."""

import ctypes
import os
import sys

import torch
import torch.distributed as dist


def start():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    x = torch.ones(1024, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    return x


def graph():
    """NCCL inside a CUDA graph."""
    x = start()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        dist.all_reduce(x)
    for _ in range(3):
        made.replay()
    torch.cuda.synchronize()
    print("graph: 3 replays", x[0].item(), flush=True)


def several():
    """One process for several ranks: ncclCommInitAll over two devices."""
    nccl, cuda = ctypes.CDLL("libnccl.so.2"), ctypes.CDLL("libcudart.so.13")
    cuda.cudaSetDevice(0)
    communicators, devices = (ctypes.c_void_p * 2)(), (ctypes.c_int * 2)(0, 1)
    code = nccl.ncclCommInitAll(communicators, 2, devices)
    if code:
        raise SystemExit(f"ncclCommInitAll = {code}")
    print("several: made", flush=True)


def gloo():
    """A gloo group of all ranks."""
    start()
    group = dist.new_group(backend="gloo")
    x = torch.ones(4)
    dist.all_reduce(x, group=group)
    for _ in range(2):
        dist.barrier()
    print("gloo:", x[0].item(), flush=True)


def none():
    """No NCCL at all."""
    print("none:", torch.ones(4, device="cuda").sum().item(), flush=True)


{"graph": graph, "several": several, "gloo": gloo, "none": none}[sys.argv[1]]()
