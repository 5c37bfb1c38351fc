"""What DataParallel is made of in PyTorch: each needs accelerators of CUDA's kind, and says so where there are none."""

from ... import _C

__all__ = ["parallel_apply", "replicate"]


def replicate(network, devices, detach: bool = False):
    """Raises: it copies a module to several CUDA devices."""
    if any(_C.device(device).type == "cpu" for device in devices if not isinstance(device, int)):
        raise ValueError("Expected a non cpu device, but got: cpu")
    raise AssertionError("Broadcast function not implemented for CPU tensors")


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Raises: it calls each module on a CUDA device of its own."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
