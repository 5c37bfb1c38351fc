"""torch._inductor.config: PyTorch's names, which programs set. None changes anything: the engine has no such
settings."""

from ..utils._config_module import install as _install

_install(__name__, {})
