"""torch.nn.attention.bias: causal masks that say which corner they begin in."""

from enum import IntEnum

from ... import _C
from ..._absent import getter
from ..._tensor import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Where the diagonal ends that a query sees up to."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask of (seq_len_q, seq_len_kv) for scaled_dot_product_attention; it has no elements of its own, which are made
    where they are needed."""

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int):
        return _C.empty((0,)).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant)}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            from warnings import warn

            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2)

    def _materialize(self, device=None):
        """The mask: True where a query sees."""
        diagonal = 0 if self.variant == CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q
        return _C.ones((self.seq_len_q, self.seq_len_kv), dtype=_C.bool, device=device).tril(diagonal)

    def __repr__(self) -> str:
        return self._materialize().__repr__()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") != "scaled_dot_product_attention":
            return super().__torch_function__(func, types, args, kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        given = dict(zip(names, args)) | kwargs
        if given.pop("is_causal", False):
            raise ValueError("CausalBias should not be used with causal=True")
        bias = given["attn_mask"]
        given["attn_mask"] = bias._materialize(given["query"].device)
        return func(**given)


def causal_upper_left(*size) -> CausalBias:
    """A mask by which query k sees the keys 0 to k."""
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left only supports 2D tensors, got {len(size)}D")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size) -> CausalBias:
    """A mask by which the last query sees all keys, each one before it one fewer."""
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right only supports 2D tensors, got {len(size)}D")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)


__getattr__ = getter("torch.nn.attention.bias")
