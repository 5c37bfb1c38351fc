"""torch.nn.functional.multi_head_attention_forward: attention of several heads, with its projections and masks.

Inside, a tensor is (length, batch, width), and (batch * heads, length, width of a head) around the products.
"""

import math

from .. import _C


def _float_mask(mask, name: str, dtype):
    """A mask that is added: bools become -inf where they are True. None stays."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not _C.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return _C.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads: int) -> bool:
    """Whether there is a batch dimension."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    kind = f"For {'batched (3-D)' if query.dim() == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"{kind} `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"{kind} `key_padding_mask` to be `None` or {query.dim() - 1}-D but found {key_padding_mask.dim()}-D "
            "tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{kind} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        )
    if query.dim() == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return query.dim() == 3


def _project(query, key, value, width: int, weight, bias, separate):
    """Queries, keys and values; one product for those that are the same tensor. `separate`: their three weights."""
    linear = _C.functions["torch._C._nn.linear"]
    if separate is not None:
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return [linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases)]
    if query is key and key is value:
        return linear(query, weight, bias).chunk(3, -1)
    of_query, of_others = weight.split([width, 2 * width])
    first, others = (None, None) if bias is None else bias.split([width, 2 * width])
    if key is value:
        return [linear(query, of_query, first), *linear(key, of_others, others).chunk(2, -1)]
    biases = (None, None) if bias is None else others.chunk(2)
    pairs = zip((key, value), of_others.chunk(2), biases)
    return [linear(query, of_query, first), *(linear(x, w, b) for x, w, b in pairs)]


def _one_more(mask):
    """The mask with a key behind the others that everyone may look at."""
    return None if mask is None else _C.constant_pad_nd(mask, (0, 1))


def _check_attn_mask(mask, length: int, n_keys: int, n: int) -> None:
    expected = (length, n_keys) if mask.dim() == 2 else (n, length, n_keys)
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}.")


def _attend(q, k, v, mask, batch: int, dropout_p: float, causal: bool, wants_weights: bool, average: bool):
    """(length, batch * heads, width of a head) and the weights, or None."""
    n, length, width = q.shape
    heads = n // batch
    if not wants_weights:
        by_head = [x.view(batch, heads, -1, width) for x in (q, k, v)]
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.view(batch, heads, -1, k.shape[1])
        out = _C.functions["torch._C._nn.scaled_dot_product_attention"](*by_head, mask, dropout_p, causal)
        return out.permute(2, 0, 1, 3), None
    scaled, turned = q * math.sqrt(1.0 / width), k.transpose(-2, -1)
    scores = _C.bmm(scaled, turned) if mask is None else _C.baddbmm(mask, scaled, turned)
    weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = _C.dropout(weights, dropout_p, True)
    out = _C.bmm(weights, v).transpose(0, 1)
    weights = weights.view(batch, heads, length, k.shape[1])
    return out, weights.mean(1) if average else weights


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check: int, num_heads: int, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn: bool, dropout_p: float, out_proj_weight, out_proj_bias, training: bool = True,
    key_padding_mask=None, need_weights: bool = True, attn_mask=None, use_separate_proj_weight: bool = False,
    q_proj_weight=None, k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
    average_attn_weights: bool = True, is_causal: bool = False,
):  # fmt: skip
    """Attention of `num_heads` heads: (result, weights or None). See nn.MultiheadAttention.

    Differs from PyTorch: static_k and static_v raise NotImplementedError.
    """
    if static_k is not None or static_v is not None:
        raise NotImplementedError("multi_head_attention_forward: static_k and static_v are not there yet")
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same, same_value = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    key_padding_mask = _float_mask(key_padding_mask, "key_padding_mask", query.dtype)
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _float_mask(attn_mask, "attn_mask", query.dtype)
        is_causal = False
    if attn_mask is not None:
        _check_attn_mask(attn_mask, length, key.shape[0], batch * num_heads)
        attn_mask = attn_mask.unsqueeze(0) if attn_mask.dim() == 2 else attn_mask
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, width, in_proj_weight, in_proj_bias, separate)
    if bias_k is not None and bias_v is not None:
        k, v = _C.cat([k, bias_k.repeat(1, batch, 1)]), _C.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    n, of_head = batch * num_heads, width // num_heads
    q, k, v = (x.reshape(x.shape[0], n, of_head).transpose(0, 1) for x in (q, k, v))
    if add_zero_attn:
        zeros = _C.zeros((n, 1, of_head), dtype=k.dtype, device=k.device)
        k, v = _C.cat([k, zeros], 1), _C.cat([v, zeros], 1)
        attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
    if key_padding_mask is not None:
        if tuple(key_padding_mask.shape) != (batch, k.shape[1]):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(batch, k.shape[1])}, but got {key_padding_mask.shape}"
            )
        padding = key_padding_mask.view(batch, 1, 1, -1).expand(-1, num_heads, -1, -1).reshape(n, 1, -1)
        attn_mask = padding if attn_mask is None else attn_mask + padding
        attn_mask = attn_mask.expand(n, length, -1)
    dropout_p = dropout_p if training else 0.0
    out, weights = _attend(q, k, v, attn_mask, batch, dropout_p, is_causal, need_weights, average_attn_weights)
    out = _C.functions["torch._C._nn.linear"](out.reshape(length * batch, width), out_proj_weight, out_proj_bias)
    out = out.view(length, batch, -1)  # as wide as the projection makes it
    if not batched:
        out, weights = out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights
