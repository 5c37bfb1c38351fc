"""torch._inductor.config: PyTorch's names, which programs set. None changes anything: the engine has no such
settings; as options of torch.compile, max_autotune and triton.cudagraphs choose the mode."""

from ..utils._config_module import install as _install

_install(__name__, {})
