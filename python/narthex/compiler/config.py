"""torch.compiler.config: other names of settings of torch._dynamo.config, which take effect as those do, and PyTorch's
further ones, which change nothing."""

from ..utils._config_module import install as _install

_install(__name__, {})
