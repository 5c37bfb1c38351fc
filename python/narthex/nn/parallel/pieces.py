"""What DataParallel is made of in PyTorch: each needs accelerators of CUDA's kind, and says so where there are none."""

from ... import _C

__all__ = ["gather", "parallel_apply", "replicate", "scatter"]


def gather(outputs, target_device, dim: int = 0):
    """Raises: it joins tensors of several CUDA devices."""
    raise AssertionError("Gather function not implemented for CPU tensors")


def _scattered(value, n: int) -> list:
    """`value` for each of `n` devices; a tensor would be cut up, for which there are no devices."""
    if isinstance(value, _C.TensorBase):
        raise RuntimeError("scatter: a tensor is cut up over CUDA devices, and there are none")
    if isinstance(value, tuple) and value:
        columns = zip(*(_scattered(item, n) for item in value))
        return [type(value)(*column) if hasattr(value, "_fields") else column for column in columns]
    if isinstance(value, list) and value:
        return [list(column) for column in zip(*(_scattered(item, n) for item in value))]
    if isinstance(value, dict) and value:
        return [type(value)(items) for items in zip(*(_scattered(item, n) for item in value.items()))]
    return [value] * n


def scatter(inputs, target_gpus, dim: int = 0):
    """For each device what it gets of `inputs`; tensors raise."""
    return _scattered(inputs, len(target_gpus))


def replicate(network, devices, detach: bool = False):
    """Raises: it copies a module to several CUDA devices."""
    if any(_C.device(device).type == "cpu" for device in devices if not isinstance(device, int)):
        raise ValueError("Expected a non cpu device, but got: cpu")
    raise AssertionError("Broadcast function not implemented for CPU tensors")


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Raises: it calls each module on a CUDA device of its own."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
