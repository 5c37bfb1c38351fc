"""torch.backends: questions about kernels of other libraries, answered as they are here: none of them is there.

Settings are kept, so that they can be read back, and change nothing.
"""

from .._absent import getter
from . import cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


__getattr__ = getter("torch.backends")
