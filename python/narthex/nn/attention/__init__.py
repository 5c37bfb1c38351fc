"""torch.nn.attention: which implementation attention takes, and attention with a program's own scores."""

from __future__ import annotations

import contextlib
import enum

from ..._absent import getter


class SDPBackend(enum.IntEnum):
    """Implementations of scaled_dot_product_attention, by PyTorch's names and numbers."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


WARN_FOR_UNFUSED_KERNELS = False
_allowed: tuple = tuple(b for b in SDPBackend if b is not SDPBackend.ERROR)


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list:
    return list(_allowed)


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority: bool = False):
    """Says which implementations are allowed. The CPU has MATH and FLASH_ATTENTION, with the same results to rounding;
    Narthex takes the one that fits. RuntimeError where neither is allowed when the context is entered."""
    global _allowed
    chosen = (backends,) if isinstance(backends, SDPBackend) else tuple(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: backends must be SDPBackend or a list of them, not {type(backend).__name__}")
    if not chosen:
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    if not {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION} & set(chosen):
        names = ", ".join(backend.name for backend in chosen)
        raise RuntimeError(f"No available kernel: sdpa_kernel allows {names}, and the CPU has MATH, FLASH_ATTENTION")
    before, _allowed = _allowed, chosen
    try:
        yield {}
    finally:
        _allowed = before


def list_flash_attention_impls() -> list:
    """Names of further implementations of flash attention: none, since they are for CUDA."""
    return []


def current_flash_attention_impl():
    """None: no further implementation of flash attention is in use."""
    return None


def register_flash_attention_impl(impl: str, *, register_fn) -> None:
    """Raises NotImplementedError."""
    raise NotImplementedError("register_flash_attention_impl: implementations of flash attention cannot be replaced")


def activate_flash_attention_impl(impl: str) -> None:
    """Raises: there is none."""
    raise ValueError(f"Unknown flash attention impl {impl!r}. Available implementations: []")


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Does nothing: no other implementation can have been activated."""


def __getattr__(name: str):
    if name in ("bias", "flex_attention"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    return getter("torch.nn.attention")(name)
