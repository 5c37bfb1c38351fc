"""torch.backends: questions about kernels of other libraries, answered as they are here: none of them is there.

Settings are kept, so that they can be read back, and change nothing.
"""

from contextlib import contextmanager

from .._absent import getter
from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


def flags_frozen() -> bool:
    """False: settings may be set at any time."""
    return False


@contextmanager
def __allow_nonbracketed_mutation():
    """Settings may be set inside, as they may outside."""
    yield


__getattr__ = getter("torch.backends")
