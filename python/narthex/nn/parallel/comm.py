"""torch.nn.parallel.comm: tensors copied to, cut up over and added over CUDA devices. Each says that there are none."""

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _none(name: str) -> AssertionError:
    return AssertionError(f"{name}: Torch not compiled with CUDA enabled: Narthex has no CUDA device")


def broadcast(tensor, devices=None, *, out=None):
    """Raises: it copies a tensor to several devices."""
    raise _none("broadcast")


def broadcast_coalesced(tensors, devices, buffer_size: int = 10485760):
    """Raises: it copies tensors to several devices."""
    raise _none("broadcast_coalesced")


def reduce_add(inputs, destination=None):
    """Raises: it adds up tensors of several devices."""
    raise _none("reduce_add")


def reduce_add_coalesced(inputs, destination=None, buffer_size: int = 10485760):
    """Raises: it adds up lists of tensors of several devices."""
    raise _none("reduce_add_coalesced")


def scatter(tensor, devices=None, chunk_sizes=None, dim: int = 0, streams=None, *, out=None):
    """Raises: it cuts a tensor up over several devices."""
    raise _none("scatter")


def gather(tensors, dim: int = 0, destination=None, *, out=None):
    """Raises: it joins tensors of several devices."""
    raise _none("gather")
