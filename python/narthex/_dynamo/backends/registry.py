"""The registry of backends, under PyTorch's path."""

from . import (
    list_backends,
    lookup_backend,
    register_backend,
    register_debug_backend,
    register_experimental_backend,
)

__all__ = [
    "list_backends", "lookup_backend", "register_backend", "register_debug_backend", "register_experimental_backend",
]  # fmt: skip
