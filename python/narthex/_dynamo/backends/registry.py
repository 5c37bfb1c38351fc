"""The registry of backends, under PyTorch's path."""

from collections.abc import Callable

from . import (
    list_backends,
    lookup_backend,
    register_backend,
    register_debug_backend,
    register_experimental_backend,
)

CompiledFn = Callable[..., tuple]
CompilerFn = Callable[..., CompiledFn]
__all__ = [
    "CompiledFn", "CompilerFn", "list_backends", "lookup_backend", "register_backend", "register_debug_backend",
    "register_experimental_backend",
]  # fmt: skip
