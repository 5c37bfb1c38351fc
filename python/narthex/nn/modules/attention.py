"""Attention as a module."""

from ... import _C
from .. import functional, init
from ..parameter import Parameter
from .linear import Linear
from .module import Module


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, by the name that texts of a MultiheadAttention show."""


class MultiheadAttention(Module):
    """Attention of `num_heads` heads of width embed_dim / num_heads: forward gives (result, weights or None).

    query is (length, batch, embed_dim), or (batch, length, embed_dim) with `batch_first`, or without a batch; key and
    value may have other lengths, and with `kdim` and `vdim` other widths. True in a mask of bools means: not allowed.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device=None, dtype=None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def new(*size: int) -> Parameter:
            return Parameter(_C.empty(size, **where))

        same = self._qkv_same_embed_dim
        self.q_proj_weight = None if same else new(embed_dim, embed_dim)
        self.k_proj_weight = None if same else new(embed_dim, self.kdim)
        self.v_proj_weight = None if same else new(embed_dim, self.vdim)
        self.in_proj_weight = new(3 * embed_dim, embed_dim) if same else None
        self.register_parameter("in_proj_bias", new(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **where)
        self.bias_k = new(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = new(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def merge_masks(self, attn_mask, key_padding_mask, query) -> tuple:
        """Both masks as one of (batch, heads, length, length), by their sum, and what it is made of: None of none, 1 of
        `key_padding_mask` alone, which stays as it is, 2 of `attn_mask`. `query` is (batch, length, embed_dim)."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(n, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(n, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights: bool = True, attn_mask=None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ):  # fmt: skip
        turn = self.batch_first and query.dim() == 3
        if turn:  # what is one tensor stays one
            same, same_value = query is key, key is value
            query = query.transpose(0, 1)
            key = query if same else key.transpose(0, 1)
            value = key if same_value else value.transpose(0, 1)
        attn_output, attn_output_weights = functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return attn_output.transpose(0, 1) if turn else attn_output, attn_output_weights
