"""graphs.py - CUDA graphs under Prism, for a real GPU.

    prism run --emulate=2 --sandbox=0 --trace=T1 -- python3 graphs.py plain   exits 0 in every phase, "graphs: ok"
    prism run --emulate=2 --sandbox=0 --trace=T2 -- python3 graphs.py nccl    exits 69 with one line about CUDA graphs

plain: forward and backward of a model are captured by torch.cuda.graph (global mode) and replayed, gradients are reduced
outside of the graph; ProcessGroupNCCL's watchdog thread runs beside the capture. nccl: an all_reduce is captured.
"""
import os
import sys

import torch
import torch.distributed as dist


def train_in_graph(steps):
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(64, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(data).square().mean().backward()
            optimizer.zero_grad(set_to_none=False)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = model(data).square().mean()
        loss.backward()
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=False)
        graph.replay()
        for p in model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
        losses.append(loss.item())
    return losses


def capture_nccl():
    x = torch.ones(1024, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)


def main():
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    torch.manual_seed(7)
    dist.init_process_group("nccl")
    if sys.argv[1:] == ["nccl"]:
        capture_nccl()
        print("graphs: an NCCL call was captured and not refused")
        sys.exit(1)
    losses = train_in_graph(6)
    assert all(a > b for a, b in zip(losses, losses[1:])), losses
    print("graphs: ok", " ".join(f"{x:.9g}" for x in losses))
    dist.destroy_process_group()


main()
