"""replicate: by which DataParallel copies modules in PyTorch. It needs CUDA devices, and says that there are none."""

from ... import _C

__all__ = ["replicate"]


def replicate(network, devices, detach: bool = False):
    """Raises: it copies a module to several CUDA devices."""
    if any(_C.device(device).type == "cpu" for device in devices if not isinstance(device, int)):
        raise ValueError("Expected a non cpu device, but got: cpu")
    raise AssertionError("Broadcast function not implemented for CPU tensors")
