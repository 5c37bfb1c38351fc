"""Attention whose scores and masks a program computes (torch.nn.attention.flex_attention), in plain operators.

A `score_mod(score, b, h, q, k)` or `mask_mod(b, h, q, k)` is called once, on index tensors that broadcast to
(batch, heads, queries, keys), where PyTorch maps it over single numbers: the same results for functions that are made
of tensor operators. A function that branches on an index needs torch.where.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ... import _C
from ..._absent import getter

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What flex_attention is to return beside the result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What it has returned: logarithms of the rows' sums, the rows' largest scores."""

    lse: object = None
    max_scores: object = None


def noop_mask(batch, head, token_q, token_kv):
    """Everything is seen."""
    return batch.new_ones(size=(), dtype=_C.bool)


def _identity(score, batch, head, token_q, token_kv):
    return score


_noop_mask = noop_mask


def and_masks(*mask_mods: Callable) -> Callable:
    """What all of them see."""

    def mask(b, h, q, k):
        result = b.new_ones((), dtype=_C.bool)
        for mod in mask_mods:
            result = result & mod(b, h, q, k)
        return result

    return mask


def or_masks(*mask_mods: Callable) -> Callable:
    """What one of them sees."""

    def mask(b, h, q, k):
        result = b.new_zeros((), dtype=_C.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q, k)
        return result

    return mask


def _places(B: int, H: int, Q: int, K: int, device) -> tuple:
    def along(n: int, dim: int):
        shape = [1, 1, 1, 1]
        shape[dim] = n
        return _C.arange(n, device=device).view(shape)

    return along(B, 0), along(H, 1), along(Q, 2), along(K, 3)


def create_mask(mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device="cpu", **unused):
    """The (B, H, Q_LEN, KV_LEN) tensor of a mask_mod (bool) or of a score_mod on scores of zero."""
    from inspect import signature

    B, H = B or 1, H or 1
    places = _places(B, H, Q_LEN, KV_LEN, device)
    takes = [p for p in signature(mod_fn).parameters.values() if p.default is p.empty]
    if len(takes) == 5:
        return mod_fn(_C.zeros(B, H, Q_LEN, KV_LEN, device=device), *places)
    return mod_fn(*places).expand(B, H, Q_LEN, KV_LEN).contiguous()


def _block_sizes(size) -> tuple:
    return (size, size) if isinstance(size, int) else tuple(size)


class BlockMask:
    """A mask in blocks: of each row of blocks how many blocks of keys it sees (`kv_num_blocks`) and which
    (`kv_indices`), those that are seen whole apart (`full_kv_…`); inside of the others `mask_mod` says."""

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, BLOCK_SIZE,
                 mask_mod) -> None:  # fmt: skip
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                       BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None, **unused):  # fmt: skip
        """A mask of its parts. Sequence lengths default to whole blocks."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        q, k = _block_sizes(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * q, kv_indices.shape[-1] * k)
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, (q, k),
                   mask_mod or noop_mask)  # fmt: skip

    @property
    def shape(self) -> tuple:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores there are."""
        return math.prod(self.shape)

    def to_dense(self):
        """(…, rows of blocks, columns of blocks), 1 where a block is seen at all."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(_C.int32)

    def sparsity(self) -> float:
        """The share of blocks, in percent, that nobody sees."""
        dense = self.to_dense()
        return 100 * (1 - dense.sum().item() / dense.numel())

    def to(self, device) -> BlockMask:
        """The mask on a device."""
        parts = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        parts = [None if part is None else part.to(device) for part in parts]
        return BlockMask(self.seq_lengths, *parts, self.BLOCK_SIZE, self.mask_mod)

    def _adjust(self, q_len: int, kv_len: int) -> BlockMask:
        """The mask for other lengths."""
        return create_block_mask(self.mask_mod, *self.shape[:2], q_len, kv_len, self.kv_indices.device, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%)"


def _dense(counts, indices):
    """Blocks that the first `counts` of `indices` name, as bool."""
    columns = _C.arange(indices.shape[-1], device=indices.device)
    named = (columns < counts[..., None]).to(_C.int32)
    return _C.zeros(indices.shape, dtype=_C.int32, device=indices.device).scatter_add(-1, indices.long(), named) > 0


def _ordered(blocks) -> tuple:
    """(counts, indices) of a bool tensor of blocks: the seen ones first, in order."""
    indices = _C.argsort(blocks.to(_C.int32), dim=-1, descending=True, stable=True)
    return blocks.sum(-1).to(_C.int32), indices.to(_C.int32)


def create_block_mask(mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                      device="cpu", BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
                      **unused) -> BlockMask:  # fmt: skip
    """The BlockMask of a mask_mod for (B, H, Q_LEN, KV_LEN); B or H None stands for all."""
    q, k = _block_sizes(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // q), -(-KV_LEN // k)
    whole = _C.zeros(*mask.shape[:2], rows * q, columns * k, dtype=_C.bool, device=mask.device)
    whole[:, :, :Q_LEN, :KV_LEN] = mask
    seen = whole.view(*mask.shape[:2], rows, q, columns, k).sum((3, 5))
    full = seen == q * k
    return BlockMask((Q_LEN, KV_LEN), *_ordered((seen > 0) & ~full), *_ordered(full), (q, k), mask_mod)


def _check(query, key, value, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            raise NotImplementedError(f"NYI: query, key, and value must be 4D tensors; {name} is {tensor.dim()}D")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError("Expected query, key, and value to have the same dtype, but got query.dtype: "
                         f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead.")  # fmt: skip
    if query.size(-1) != key.size(-1):
        raise ValueError(f"Expect query and key/value to have the same embedding dimension but got E={query.size(-1)} "
                         f"and E={key.size(-1)}.")  # fmt: skip
    if not enable_gqa and query.size(-3) != key.size(-3):
        raise ValueError(f"Expect query and key/value to have the same number of heads but got Hq={query.size(-3)} and "
                         f"Hkv={key.size(-3)}. Try setting enable_gqa=True for GQA.")  # fmt: skip
    if enable_gqa and query.size(-3) % key.size(-3):
        raise ValueError(f"Expect number of query heads to be a multiple of kv heads for GQA but got "
                         f"Hq={query.size(-3)} and Hkv={key.size(-3)}.")  # fmt: skip


def flex_attention(query, key, value, score_mod: Callable | None = None, block_mask: BlockMask | None = None,
                   scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False,
                   kernel_options=None, *, return_aux: AuxRequest | None = None):  # fmt: skip
    """softmax(score_mod(query @ key.T · scale)) @ value over what `block_mask` lets see; query (B, H, L, E), key and
    value (B, Hkv, S, …). A row that sees nothing is 0. Scores are float32 for the half types, as PyTorch's are."""
    _check(query, key, value, enable_gqa)
    if enable_gqa and query.size(1) != key.size(1):
        each = query.size(1) // key.size(1)
        key, value = key.repeat_interleave(each, dim=1), value.repeat_interleave(each, dim=1)
    computing = _C.float64 if query.dtype == _C.float64 else _C.float32
    scores = (query @ key.transpose(-2, -1)).to(computing)
    scores = scores * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    places = _places(*scores.shape, scores.device)
    if score_mod is not None:
        scores = score_mod(scores, *places).to(computing)
    if block_mask is not None:
        lengths = scores.shape[-2:]
        if any(have < want for have, want in zip(block_mask.seq_lengths, lengths, strict=True)):
            raise ValueError(f"block_mask was created for block_mask.shape={block_mask.shape} but got "
                             f"q_len={lengths[0]} and kv_len={lengths[1]}.")  # fmt: skip
        scores = scores.masked_fill(~block_mask.mask_mod(*places), -math.inf)
    highest = scores.amax(-1, keepdim=True)
    nothing = highest == -math.inf
    weights = _C.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    result = weights.to(value.dtype) @ value
    if not return_lse and return_aux is None:
        return result
    lse = scores.masked_fill(nothing, 0.0).logsumexp(-1).masked_fill(nothing.squeeze(-1), -math.inf)
    if return_aux is None:
        return result, lse
    return result, AuxOutput(lse if return_aux.lse else None, highest.squeeze(-1) if return_aux.max_scores else None)


__getattr__ = getter("torch.nn.attention.flex_attention")
