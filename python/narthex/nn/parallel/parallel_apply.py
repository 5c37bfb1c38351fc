"""parallel_apply: how DataParallel calls modules in PyTorch. It needs CUDA devices, and says that there are none."""

__all__ = ["parallel_apply"]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Raises: it calls each module on a CUDA device of its own."""
    raise RuntimeError("Cannot access accelerator device when none is available.")
