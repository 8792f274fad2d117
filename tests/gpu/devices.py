"""What a rank's PyTorch sees of its node's devices. One line a check: "ok NAME" or "failed NAME: WHY".

    devices.py COUNT    COUNT: devices that the node has
"""

import ctypes
import os
import sys
import traceback

import torch
import torch.distributed as dist

COUNT = int(sys.argv[1])
LOCAL = int(os.environ["LOCAL_RANK"])
checks = []


def check(function):
    checks.append(function)
    return function


def equal(a, b):
    if a != b:
        raise AssertionError(f"{a!r} is not {b!r}")


@check
def count_without_cuda():
    equal(torch.cuda.device_count(), COUNT)
    equal(torch.cuda.is_initialized(), False)


@check
def current_is_0_at_first():
    equal(torch.cuda.current_device(), 0)


@check
def set_device():
    torch.cuda.set_device(LOCAL)
    equal(torch.cuda.current_device(), LOCAL)


@check
def out_of_range():
    try:
        torch.cuda.set_device(COUNT)
    except Exception:
        return
    raise AssertionError("set_device took an ordinal that is none")


@check
def names_and_identities():
    names = {torch.cuda.get_device_name(i) for i in range(COUNT)}
    equal(len(names), 1)
    equal(len({str(torch.cuda.get_device_properties(i).uuid) for i in range(COUNT)}), COUNT)


@check
def nvml_agrees():
    # NVML's are the node's, whatever CUDA_VISIBLE_DEVICES says.
    uuids = [uuid.replace("GPU-", "") for uuid in torch.cuda._raw_device_uuid_nvml()]
    equal(len(set(uuids)) >= COUNT, True)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(str(i) for i in range(COUNT))).split(",")
    equal(uuids[int(visible[LOCAL])], str(torch.cuda.get_device_properties(LOCAL).uuid))


@check
def memory():
    free, total = torch.cuda.mem_get_info()
    equal(0 < free <= total, True)
    equal(torch.cuda.mem_get_info(LOCAL)[1], total)


@check
def tensors_and_cublas():
    a = torch.ones(256, 256, device=f"cuda:{LOCAL}")
    equal(a.get_device(), LOCAL)
    equal(float((a @ a).sum()), 256.0 ** 3)
    equal((a.half() @ a.half()).device.index, LOCAL)
    equal(torch.cuda.memory_allocated(LOCAL) > 0, True)


@check
def cudnn():
    x = torch.ones(2, 3, 32, 32, device="cuda")
    w = torch.ones(4, 3, 3, 3, device="cuda")
    equal(float(torch.nn.functional.conv2d(x, w).mean()), 27.0)


@check
def primary_contexts():
    # Of the device that was chosen, and of device 0 if the question for the current one brought it up; of no other.
    has = [torch._C._cuda_hasPrimaryContext(i) for i in range(COUNT)]
    equal(has[LOCAL], True)
    equal([i for i in range(COUNT) if has[i] and i not in (0, LOCAL)], [])


@check
def pinned_memory():
    host = torch.arange(1000, dtype=torch.float32).pin_memory()
    equal(host.is_pinned(), True)
    equal(float(host.to("cuda", non_blocking=True).sum()), 499500.0)


@check
def streams_and_events():
    stream = torch.cuda.Stream()
    equal(stream.device.index, LOCAL)
    with torch.cuda.stream(stream):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
    event.synchronize()


@check
def backward_in_another_thread():
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    (x @ x).sum().backward()
    equal(x.grad.device.index, LOCAL)


@check
def peers():
    if COUNT > 1:
        equal(torch.cuda.can_device_access_peer(LOCAL, (LOCAL + 1) % COUNT), True)


@check
def driver_by_name():
    cuda = ctypes.CDLL("libcuda.so.1")
    n, device = ctypes.c_int(-1), ctypes.c_int(-1)
    equal(cuda.cuDeviceGetCount(ctypes.byref(n)), 0)
    equal(n.value, COUNT)
    equal(cuda.cuCtxGetDevice(ctypes.byref(device)), 0)
    equal(device.value, LOCAL)


@check
def compiled():
    f = torch.compile(lambda x: torch.nn.functional.gelu(x) * 2 + 1)
    x = torch.zeros(1024, device="cuda")
    equal(float(f(x).sum()), 1024.0)


@check
def expandable_segments():
    # Virtual memory of the program's own, with the device in its properties.
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    x = torch.ones(32 << 20, device="cuda")
    equal(float(x[:1000].sum()), 1000.0)


@check
def nccl():
    dist.init_process_group("nccl")
    x = torch.full((1000,), float(dist.get_rank() + 1), device="cuda")
    dist.all_reduce(x)
    n = dist.get_world_size()
    equal(float(x[0]), n * (n + 1) / 2)
    torch.cuda.synchronize()
    dist.destroy_process_group()


for function in checks:
    try:
        function()
        print(f"ok rank {os.environ['RANK']} {function.__name__}", flush=True)
    except Exception as error:  # every check is to be seen
        print(f"failed rank {os.environ['RANK']} {function.__name__}: {type(error).__name__}: {error}", flush=True)
        traceback.print_exc()
