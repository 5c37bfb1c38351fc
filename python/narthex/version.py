"""torch.version: whose programs run here, and what of PyTorch's build is there."""

from . import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

debug = False
cuda = None
git_version = ""
hip = None
xpu = None
