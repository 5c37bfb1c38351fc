"""The registry of backends, under PyTorch's path."""

from . import list_backends, lookup, register_backend

lookup_backend = lookup
register_debug_backend = register_experimental_backend = register_backend
__all__ = ["list_backends", "lookup_backend", "register_backend", "register_debug_backend"]
