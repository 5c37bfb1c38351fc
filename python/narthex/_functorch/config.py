"""torch._functorch.config: PyTorch's names. None changes anything: AOT has no such settings."""

from ..utils._config_module import install as _install

_install(__name__, {})
