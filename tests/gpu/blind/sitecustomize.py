"""Under tests/gpu/blind/python3 kernels do nothing, so what programs count on the device, and read on the host, is made here: equal
shares, which copies carry."""

import importlib.abc
import importlib.machinery
import sys


def shares(torch):
    def bincount(values, weights=None, minlength=0):
        made = torch.full((minlength,), values.numel() // max(1, minlength), dtype=torch.int64)
        made[0] += values.numel() - int(made.sum())
        return made.to(values.device)

    stack = torch.stack

    def stack_on_host(tensors, *arguments, **keywords):
        if tensors[0].is_cuda and not tensors[0].is_floating_point():
            return stack([t.cpu() for t in tensors], *arguments, **keywords).to(tensors[0].device)
        return stack(tensors, *arguments, **keywords)

    torch.bincount, torch.stack = bincount, stack_on_host
    # Needs cuDNN; others do without.
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch._C._set_sdp_use_cudnn = lambda use: None
    # Compiled when first called, by NVRTC.
    torch.Tensor.erfinv_ = lambda values: values


class Finder(importlib.abc.MetaPathFinder):
    """Notices that torch is imported, and has it changed afterwards."""

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            shares(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
