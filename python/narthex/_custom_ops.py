"""torch._custom_ops: an older place of torch.library's names."""

from .library import custom_op, get_ctx, impl

__all__ = ["custom_op", "get_ctx", "impl"]
