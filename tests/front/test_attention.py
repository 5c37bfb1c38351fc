"""F.scaled_dot_product_attention beside PyTorch's: tiles, masks, heads in groups; compiled, on both devices."""

import narthex as nt
import pytest
import torch
from both import close, over
from narthex import _C
from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

SHAPES = {  # query; key and value
    "one tile": ((2, 2, 40, 16), (2, 2, 40, 16)),
    "many tiles": ((1, 2, 200, 8), (1, 2, 300, 8)),
    "groups of heads": ((2, 6, 70, 8), (2, 2, 150, 8)),
    "three dimensions": ((3, 20, 8), (3, 30, 8)),
}
OPTIONS = {
    "plain": lambda q, k: {},
    "causal": lambda q, k: {"is_causal": True},
    "bool mask": lambda q, k: {"attn_mask": torch.rand(q, k) > 0.4},
    "empty rows": lambda q, k: {"attn_mask": torch.arange(q).reshape(-1, 1) % 3 > 0},
    "float mask": lambda q, k: {"attn_mask": torch.randn(q, k), "scale": -0.4},
    "dropout": lambda q, k: {"dropout_p": 0.3},
}


def results(module, tensors, options):
    module.manual_seed(7)
    inputs = [x.requires_grad_() for x in tensors]
    result = module.nn.functional.scaled_dot_product_attention(*inputs, **options)
    (result * result).sum().backward()
    return [result, *(x.grad for x in inputs)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_and_gradients(shape, options, dtype):
    torch.manual_seed(1)
    sizes = SHAPES[shape]
    tensors = [torch.randn(size).to(getattr(torch, dtype)) for size in (*sizes, sizes[1])]
    given = OPTIONS[options](sizes[0][-2], sizes[1][-2])
    if "attn_mask" in given and given["attn_mask"].is_floating_point():
        given["attn_mask"] = given["attn_mask"].to(getattr(torch, dtype))
    if shape == "groups of heads":
        given["enable_gqa"] = True
    ours = {name: over(value) if isinstance(value, torch.Tensor) else value for name, value in given.items()}
    theirs = results(torch, [x.clone() for x in tensors], given)
    bound = 3e-2 if dtype == "bfloat16" else 2e-5
    for mine, other in zip(results(nt, [over(x) for x in tensors], ours), theirs):
        close(mine, other, bound, bound)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", [(2, 64, 3, 4, 32), (1, 100, 3, 4, 64), (2, 37, 3, 3, 20)])
def test_operands_side_by_side_have_the_bits_of_contiguous_ones(size, causal):
    nt.manual_seed(3)
    x, g = nt.randn(size), nt.randn(size[0], size[1], size[3], size[4]).transpose(1, 2)
    found = []
    for change in (lambda x: x, lambda x: x.contiguous()):
        q, k, v = (change(part).detach().requires_grad_() for part in x.permute(2, 0, 3, 1, 4).unbind(0))
        y = nt.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        y.backward(change(g))
        found.append([y, q.grad, k.grad, v.grad])
    assert all(nt.equal(a, b) for a, b in zip(*found))


def test_more_keys_than_are_packed_at_once():
    nt.manual_seed(4)
    queries, keys, values = nt.randn(1, 1, 70, 128), nt.randn(1, 1, 1025, 128), nt.randn(1, 1, 1025, 128)
    found = []
    for n in (1024, 1025):
        q, k, v = (x.clone().requires_grad_() for x in (queries, keys[:, :, :n], values[:, :, :n]))
        seen = nt.arange(n).expand(70, n) < 1024
        y = nt.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        (y * y).sum().backward()
        found.append([y, q.grad, k.grad[:, :, :1024], v.grad[:, :, :1024]])
    assert all(nt.equal(a, b) for a, b in zip(*found))


def test_mask_with_a_gradient():
    torch.manual_seed(2)
    q, k, v, mask = (torch.randn(size) for size in ((1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 4), (5, 6)))
    found = []
    for module, change in ((nt, over), (torch, torch.clone)):
        given = change(mask).requires_grad_()
        module.nn.functional.scaled_dot_product_attention(change(q), change(k), change(v), given).sin().sum().backward()
        found.append(given.grad)
    close(*found)


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("device", ["cpu", "npu:0"])
@pytest.mark.parametrize("options", [{"is_causal": True}, {"is_causal": True, "dropout_p": 0.2}])
def test_compiled_is_eager(options, device, mode):
    generator = torch.Generator().manual_seed(1)
    x = over(torch.randn(2, 70, 3 * 16, generator=generator)).to(device)

    def loss(x):
        q, k, v = x.view(2, 70, 3, 4, 4).permute(2, 0, 3, 1, 4).chunk(3)
        q, k, v = q.select(0, 0), k.select(0, 0), v.select(0, 0)
        return nt.nn.functional.scaled_dot_product_attention(q, k, v, **options).tanh().sum()

    found = []
    _C.fallbacks_clear()
    for called in (loss, nt.compile(loss, mode=mode, fullgraph=True)):
        nt.manual_seed(5)
        leaf = x.clone().requires_grad_()
        values = [called(leaf), called(leaf)]
        (values[0] + values[1]).backward()
        found.append(([value.item() for value in values], leaf.grad.tolist()))
    assert found[0] == found[1] and not _C.fallbacks()
