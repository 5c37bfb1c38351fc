"""nn.MultiheadAttention beside PyTorch's: projections, masks, weights, gradients, dropout; compiled."""

from typing import Any

import narthex as nt
import numpy as np
import pytest
import torch
from both import close, over, same

LAYERS = {
    "plain": {}, "no bias": {"bias": False}, "batch first": {"batch_first": True}, "zero": {"add_zero_attn": True},
    "more": {"add_bias_kv": True}, "other widths": {"kdim": 5, "vdim": 7}, "dropout": {"dropout": 0.3},
    "other widths, more": {"kdim": 5, "vdim": 7, "add_bias_kv": True, "add_zero_attn": True, "bias": False},
}  # fmt: skip
LENGTH, KEYS, BATCH, WIDTH, HEADS = 4, 6, 3, 8, 2
CALLS = {
    "plain": lambda: {},
    "one by one": lambda: {"average_attn_weights": False},
    "without weights": lambda: {"need_weights": False},
    "bool mask": lambda: {"attn_mask": torch.arange(LENGTH)[:, None] < torch.arange(KEYS) - 2},
    "mask of each": lambda: {"attn_mask": torch.randn(BATCH * HEADS, LENGTH, KEYS), "need_weights": False},
    "padding": lambda: {"key_padding_mask": torch.arange(KEYS) > torch.tensor([[5], [3], [4]])},
    "float padding and mask": lambda: {
        "key_padding_mask": torch.randn(BATCH, KEYS), "attn_mask": torch.randn(LENGTH, KEYS), "need_weights": False,
    },
    "causal": lambda: {
        "attn_mask": torch.ones(LENGTH, KEYS).triu(1) > 0, "is_causal": True, "need_weights": False,
    },
    "causal with weights": lambda: {"attn_mask": torch.ones(LENGTH, KEYS).triu(1) > 0, "is_causal": True},
}  # fmt: skip


def made(options):
    layers = []
    for module in (nt, torch):
        module.manual_seed(5)
        layers.append(module.nn.MultiheadAttention(WIDTH, HEADS, **options))
    return layers


def inputs(options, batched=True, alike=False):
    sizes = [(LENGTH, WIDTH), (KEYS, options.get("kdim", WIDTH)), (KEYS, options.get("vdim", WIDTH))]
    values = [torch.randn(n, BATCH, width) if batched else torch.randn(n, width) for n, width in sizes]
    values = [values[0]] * 3 if alike else values
    return [x.transpose(0, 1).contiguous() for x in values] if batched and options.get("batch_first") else values


def run(module, layer, values, given, seed=9):
    module.manual_seed(seed)
    leaves = {id(x): (over(x) if module is nt else x.clone()).requires_grad_() for x in values}
    given = {k: over(v) if module is nt and isinstance(v, torch.Tensor) else v for k, v in given.items()}
    result, weights = layer(*(leaves[id(x)] for x in values), **given)
    (result * result).sum().backward()
    return [result, *([] if weights is None else [weights]), *(x.grad for x in leaves.values())]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", LAYERS)
def test_numbers_and_gradients(name, call):
    torch.manual_seed(1)
    options, given = LAYERS[name], CALLS[call]()
    mine, theirs = made(options)
    assert repr(mine) == repr(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    for one, other in zip(mine.parameters(), theirs.parameters()):
        same(one, other)
    values = inputs(options)
    found = [run(nt, mine, values, given), run(torch, theirs, values, given)]
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found):
        close(one, other, 1e-4, 1e-5)
    for one, other in zip(mine.parameters(), theirs.parameters()):
        close(one.grad, other.grad, 1e-4, 1e-5)
    mine.eval(), theirs.eval()
    for one, other in zip(run(nt, mine, values, given), run(torch, theirs, values, given)):
        close(one, other, 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["plain", "batch first", "more"])
@pytest.mark.parametrize("batched", [True, False])
def test_of_itself(name, batched):
    """Query, key and value are one tensor."""
    torch.manual_seed(2)
    mine, theirs = made(LAYERS[name])
    values = inputs(LAYERS[name], batched, True)
    for given in ({}, {"need_weights": False}, {"average_attn_weights": False}):
        for one, other in zip(run(nt, mine, values, given), run(torch, theirs, values, given)):
            close(one, other, 1e-4, 1e-5)


def test_compiled():
    torch.manual_seed(3)
    mine, theirs = made({"batch_first": True})
    compiled = nt.compile(mine, fullgraph=True)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    for given in ({"need_weights": False}, {}):
        found = [run(nt, compiled, [x] * 3, given), run(torch, theirs, [x] * 3, given)]
        for one, other in zip(*found):
            close(one, other, 1e-4, 1e-5)


def test_refuses():
    mask = torch.zeros(LENGTH, KEYS + 1)
    for module, layer in zip((nt, torch), made({})):
        query, key = module.zeros(LENGTH, BATCH, WIDTH), module.zeros(KEYS, BATCH, WIDTH)
        with pytest.raises(RuntimeError, match="attn_mask is .* but should be"):
            layer(query, key, key, attn_mask=over(mask) if module is nt else mask)
        with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
            layer(query, key, key, is_causal=True)
        with pytest.raises(AssertionError, match="was expecting embedding dimension of 8, but got 4"):
            layer(query[..., :4], key, key)
        with pytest.raises(AssertionError, match="query should be unbatched 2D or batched 3D"):
            layer(query[None], key, key)
        with pytest.raises((AssertionError, ValueError), match="divisible by num_heads"):
            module.nn.MultiheadAttention(8, 3)


ENCODERS = {
    "plain": {}, "norm first": {"norm_first": True, "batch_first": True},
    "gelu, no bias": {"activation": "gelu", "bias": False},
    "dropout": {"dropout": 0.0, "layer_norm_eps": 1e-3},
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder(name):
    """Numbers and gradients of two layers, with masks; draws of the weights."""
    layers = []
    for module in (nt, torch):
        module.manual_seed(6)
        n = module.nn
        layer = n.TransformerEncoderLayer(WIDTH, HEADS, 16, **{"dropout": 0.0, **ENCODERS[name]})
        layers.append(n.TransformerEncoder(layer, 2, n.LayerNorm(WIDTH), enable_nested_tensor=False))
    mine, theirs = layers
    assert repr(mine) == repr(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    for one, other in zip(mine.parameters(), theirs.parameters()):
        same(one, other)
    torch.manual_seed(4)
    x = torch.randn(3, LENGTH, WIDTH)
    size = x.shape[1] if "batch_first" in ENCODERS[name] else x.shape[0]
    for mask in (None, torch.ones(size, size).triu(1) > 0):
        found = []
        for module, layer in ((nt, mine), (torch, theirs)):
            given = None if mask is None else over(mask) if module is nt else mask
            leaf = (over(x) if module is nt else x.clone()).requires_grad_()
            result = layer(leaf, mask=given)
            (result * result * leaf).sum().backward()
            found.append([result, leaf.grad, *(p.grad for p in layer.parameters())])
        for one, other in zip(*found):
            close(one, other, 1e-4, 1e-4)


def test_encoder_dropout():
    """The draws come in PyTorch's order."""
    found = []
    for module in (nt, torch):
        module.manual_seed(6)
        layer = module.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.5)
        x = torch.randn(5, 2, WIDTH, generator=torch.Generator().manual_seed(1))
        found.append(layer(over(x) if module is nt else x))
    close(*found, 1e-4, 1e-4)


def test_layers_whose_blocks_a_subclass_has() -> None:
    """As programs have them that want the weights of attention, or another network behind it."""
    given = []
    for m in (nt, torch):

        class Encoder(m.nn.TransformerEncoderLayer):
            def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
                x, self.weights = self.self_attn(x, x, x, attn_mask=attn_mask, need_weights=True)
                return self.dropout1(x)

            def _ff_block(self, x: Any) -> Any:
                return super()._ff_block(x) * 2

        class Decoder(m.nn.TransformerDecoderLayer):
            def _mha_block(
                self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
            ) -> Any:
                return super()._mha_block(x, mem, attn_mask, key_padding_mask, is_causal) * 3

        m.manual_seed(0)
        x = m.arange(24.0).view(2, 3, 4).sin()
        for first in (False, True):
            options = {"dropout": 0.0, "batch_first": True, "norm_first": first}
            encoder, decoder = Encoder(4, 2, 8, **options), Decoder(4, 2, 8, **options)
            result = decoder(x, encoder(x))
            given += [result.tolist(), encoder.weights.tolist()]
    half = len(given) // 2
    for ours, theirs in zip(given[:half], given[half:]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
