"""Complex numbers as programs use them, beside PyTorch: promotion with Python's numbers, texts of what is refused,
gradients by PyTorch's convention."""

from __future__ import annotations

import math
import re
import warnings

import narthex as nt
import pytest
import torch


def outcome(call, module):
    """What a call gives, as lists and a dtype, or the exception's type and text without the operator's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(module)
        except Exception as error:
            return type(error).__name__, re.sub(r"^(aten::)?[\w.]+: ", "", str(error))
    return (result.tolist(), str(result.dtype)) if hasattr(result, "tolist") else result


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, complex) and isinstance(b, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, float) and isinstance(b, float):
        return math.isnan(a) and math.isnan(b) or math.isclose(a, b, rel_tol=2e-6, abs_tol=1e-6)
    return a == b


def x(m):
    return m.tensor([1.0, 2.0, -3.0])


def z(m):
    return m.tensor([1 + 1j, 2 - 1j, -3])


CALLS = {
    "1j * x": lambda m: 1j * x(m),
    "x - 1j": lambda m: x(m) - 1j,
    "1j - x": lambda m: 1j - x(m),
    "1j / x": lambda m: 1j / x(m),
    "x ** 1j": lambda m: x(m) ** 1j,
    "1j ** x": lambda m: 1j ** x(m),
    "2 ** z": lambda m: 2 ** z(m),
    "z ** 0.5": lambda m: z(m) ** 0.5,
    "z == 1 + 1j": lambda m: z(m) == 1 + 1j,
    "double with complex64": lambda m: z(m) + m.tensor([2.0], dtype=m.float64),
    "double * 1j": lambda m: m.tensor([2.0], dtype=m.float64) * 1j,
    "int * 1j": lambda m: m.tensor([2], dtype=m.int32) * 1j,
    "bool * 1j": lambda m: m.tensor([True]) * 1j,
    "where": lambda m: m.where(x(m) > 0, x(m), 1j),
    "alpha": lambda m: m.add(z(m), x(m), alpha=2j),
    "alpha of real tensors": lambda m: m.add(x(m), x(m), alpha=1j),
    "value of real tensors": lambda m: m.addcmul(x(m), x(m), x(m), value=1j),
    "addmm": lambda m: m.addmm(z(m), z(m).reshape(3, 1), z(m).reshape(1, 3), beta=2j, alpha=1 - 1j),
    "beta of real tensors": lambda m: m.addmm(x(m), x(m).reshape(3, 1), x(m).reshape(1, 3), beta=2j),
    "masked_fill": lambda m: x(m).masked_fill(x(m) > 0, 1j),
    "mul_": lambda m: x(m).mul_(1j),
    "abs_": lambda m: z(m).abs_(),
    "abs": lambda m: abs(z(m)),
    "full": lambda m: m.full((2,), 1j),
    "full of float32": lambda m: m.full((2,), 1j, dtype=m.float32),
    "std": lambda m: z(m).std(),
    "var": lambda m: z(m).var(0, False),
    "norm": lambda m: z(m).norm(),
    "isinf": lambda m: m.isinf(m.tensor([complex("inf"), 1j, complex(0, float("-inf"))])),
    "isnan": lambda m: m.isnan(m.tensor([complex("nan"), 1j, complex(0, float("nan"))])),
    "isfinite": lambda m: m.isfinite(m.tensor([complex("inf"), 1j])),
    "divided by 0": lambda m: z(m) / 0,
    "complex()": lambda m: complex(z(m)[0]),
    "backward of a complex sum": lambda m: z(m).requires_grad_().sum().backward(),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name):
    mine, theirs = outcome(CALLS[name], nt), outcome(CALLS[name], torch)
    assert same(mine, theirs), f"{mine}, PyTorch has {theirs}"


@pytest.mark.parametrize("word", ["lt", "floor", "fmod", "clamp_min", "sort", "amax", "erf", "relu", "sign"])
def test_what_has_no_complex_meaning_is_refused(word):
    a = nt.tensor([1 + 1j])
    call = getattr(nt, word, None) or getattr(nt.nn.functional, word)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        call(a, a) if word in ("lt", "fmod", "clamp_min") else call(a)


def gradients(m, compiled=None):
    """Of real and complex leaves used together; the loss is real."""
    a = m.tensor([0.5, -1.5, 2.0], requires_grad=True)
    b = m.tensor([1 + 2j, -0.5j, 0.25 - 1j], requires_grad=True)
    w = m.tensor([[1j, 2, 0.5], [1 - 1j, 0.5j, -1], [0.25, 1, 1j]], requires_grad=True)

    def loss(a, b, w):
        y = (w @ (a * b + 1j)).exp() * b.conj() / (2 + a) - (b**2).sin()
        return (y.abs() + abs(y * y.conj())).sum() + (a * a).sum()

    function = loss if compiled is None else m.compile(loss, mode=compiled, fullgraph=True)
    value = function(a, b, w)
    value.backward()
    return [value.item(), a.grad.tolist(), b.grad.tolist(), w.grad.tolist()]


@pytest.mark.parametrize("mode", [None, "max-autotune", "reduce-overhead"])
def test_gradients_of_real_and_complex_leaves(mode):
    assert same(gradients(nt, mode), gradients(torch))


# ---- views of the parts ----------------------------------------------------------------------------------------------
def rotary(m):
    """Rotary embedding as Llama has it."""

    def embed(xq, xk, freqs):
        def turned(x):
            pairs = m.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return m.view_as_real(pairs * freqs).flatten(3).type_as(x)

        return turned(xq), turned(xk)

    return embed


def rotary_arguments(m):
    freqs = 1.0 / (10000.0 ** (m.arange(0, 8, 2)[:4].float() / 8))
    angles = m.outer(m.arange(5), freqs)
    cis = m.polar(m.ones_like(angles), angles).view(1, 5, 1, 4)
    xq = m.linspace(-1, 1, 2 * 5 * 3 * 8).reshape(2, 5, 3, 8).requires_grad_()
    xk = m.linspace(2, -3, 2 * 5 * 1 * 8).reshape(2, 5, 1, 8).requires_grad_()
    return xq, xk, cis


def rotary_numbers(m, function):
    xq, xk, cis = rotary_arguments(m)
    a, b = function(xq, xk, cis)
    ((a * a).sum() + (b * m.arange(8)).sum()).backward()
    return [part.tolist() for part in (a, b, xq.grad, xk.grad)]


@pytest.mark.parametrize("mode", [None, "max-autotune", "reduce-overhead"])
def test_rotary_embedding(mode):
    function = rotary(nt) if mode is None else nt.compile(rotary(nt), mode=mode, fullgraph=True)
    wanted = rotary_numbers(torch, rotary(torch))
    for _ in range(2):
        assert same(rotary_numbers(nt, function), wanted)


def test_rotary_embedding_is_exported():
    class Rotary(nt.nn.Module):
        def forward(self, xq, xk, freqs):
            return rotary(nt)(xq, xk, freqs)

    arguments = rotary_arguments(nt)
    program = nt.export.export(Rotary(), arguments)
    wanted = rotary(torch)(*rotary_arguments(torch))
    for mine, theirs in zip(program.module()(*arguments), wanted):
        assert same(mine.tolist(), theirs.tolist())


def written_parts(m):
    """Parts are views: what is written into them changes the numbers, and gradients follow."""
    a = m.tensor([1 + 2j, 3 - 1j, 0.5j], requires_grad=True)
    b = a * 1
    b.real.mul_(3)
    b[1:].imag.add_(m.tensor([1.0, 2.0]))
    m.view_as_real(b)[0] = 7
    b.imag = b.real * 2
    (b * b.conj()).real.sum().backward()
    return [b.tolist(), a.grad.tolist()]


def test_parts_are_written_through():
    assert same(written_parts(nt), written_parts(torch))


def test_compiled_functions_write_parts():
    def function(m):
        def write(x):
            y = x * 2
            y.real.add_(1)
            return y, m.view_as_real(y)[..., 1], y[1:].imag

        return write

    mine = nt.compile(function(nt), fullgraph=True)(nt.tensor([1 + 2j, 3 - 1j]))
    for ours, theirs in zip(mine, function(torch)(torch.tensor([1 + 2j, 3 - 1j]))):
        assert same(ours.tolist(), theirs.tolist())


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_a_graph_gives_views_of_an_input_that_begins_within_its_memory(mode):
    base = nt.arange(12).float()
    compiled = nt.compile(lambda x: nt.view_as_complex(x.view(-1, 2)), mode=mode, fullgraph=True)
    for start in (2, 4):
        assert compiled(base[start : start + 4]).tolist() == [start + 1j * (start + 1), start + 2 + 1j * (start + 3)]
    pairs = nt.complex(base, base + 0.5)
    parts = nt.compile(lambda z: nt.view_as_real(z), mode=mode, fullgraph=True)
    for start in (1, 3):
        assert parts(pairs[start : start + 2]).tolist() == nt.view_as_real(pairs)[start : start + 2].tolist()


VIEWS = {
    "view as int32": lambda m: m.tensor([1.0, -2.0]).view(m.int32),
    "view as complex64": lambda m: m.tensor([1.0, -2.0]).view(m.complex64),
    "view as bytes": lambda m: m.tensor([[1.0, -2.0]]).view(m.uint8),
    "view of a part": lambda m: m.arange(6).float()[2:].view(m.float64).view(m.float32),
    "odd offset": lambda m: m.view_as_complex(m.arange(5.0)[1:].view(2, 2)),
    "H": lambda m: m.outer(z(m), x(m)).H,
    "mH": lambda m: m.stack([m.outer(z(m), x(m))] * 2).mH,
    "H of a vector": lambda m: z(m).H,
    "adjoint of a vector": lambda m: z(m).adjoint(),
    "vdot": lambda m: m.vdot(z(m), z(m)),
    "real of a real": lambda m: x(m).real,
    "imag of a real": lambda m: x(m).imag,
    "angle": lambda m: m.angle(m.tensor([-1.0, 2.0, float("nan")])),
    "angle of complex numbers": lambda m: m.angle(z(m)),
    "isreal": lambda m: m.isreal(z(m)),
    "complex of halves and floats": lambda m: m.complex(x(m), x(m).double()),
    "complex of integers": lambda m: m.complex(m.tensor([1]), m.tensor([1])),
    "resolve_conj": lambda m: z(m).conj().resolve_conj().resolve_neg(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_as_in_pytorch(name):
    mine, theirs = outcome(VIEWS[name], nt), outcome(VIEWS[name], torch)
    assert same(mine, theirs), f"{mine}, PyTorch has {theirs}"


# ---- complex32 -------------------------------------------------------------------------------------------------------
def h(m):
    return m.tensor([1.5 + 2j, -0.25j, 70.0], dtype=m.complex32)


def part_gradients(m):
    a = m.tensor([1 + 2j, 3 - 1j], dtype=m.complex32, requires_grad=True)
    b = m.tensor([1.0, 2.0], dtype=m.float16, requires_grad=True)
    (a * a.conj() * m.complex(b, b)).abs().backward(m.ones(2, dtype=m.float16))
    return m.stack([m.view_as_real(a.grad), m.stack([b.grad, b.grad], 1)])


def written(m):
    a = h(m)
    a.real[1:] = 7
    a.imag.mul_(2)
    a[0] = 3j
    return a


def default_of_halves(m):
    before = m.get_default_dtype()
    m.set_default_dtype(m.float16)
    try:
        return m.stack([m.tensor(1j), m.arange(2)[1] * 1j])
    finally:
        m.set_default_dtype(before)


HALVES = {
    "a float16 beside a complex number": lambda m: m.tensor([1.0, 2.5], dtype=m.float16) + 1j,
    "a bfloat16 beside a complex number": lambda m: m.tensor([1.0, 2.5], dtype=m.bfloat16) * 1j,
    "complex of halves": lambda m: m.complex(m.ones(2).half(), m.zeros(2).half()),
    "polar of halves": lambda m: m.polar(m.ones(2).half(), m.zeros(2).half()),
    "chalf": lambda m: m.tensor([1.0, 1e6]).chalf() * m.tensor(2).to(m.chalf),
    "type": lambda m: h(m).type(m.complex64),
    "float64": lambda m: h(m).to(m.float64),
    "bool": lambda m: h(m).bool(),
    "with float32": lambda m: h(m) + m.ones(3),
    "with float64": lambda m: h(m) - m.ones(3, dtype=m.float64),
    "with complex64": lambda m: h(m) * z(m),
    "with int64": lambda m: h(m) + m.arange(3),
    "real": lambda m: h(m).real,
    "imag": lambda m: h(m).imag,
    "view_as_real": lambda m: m.view_as_real(h(m)),
    "view_as_complex": lambda m: m.view_as_complex(m.ones(3, 2, dtype=m.float16)),
    "view": lambda m: h(m).view(m.float16),
    "conj": lambda m: h(m).conj(),
    "abs": lambda m: h(m).abs(),
    "sgn": lambda m: h(m).sgn(),
    "angle": lambda m: h(m).angle(),
    "divided": lambda m: h(m) / 2,
    "exp": lambda m: h(m).exp(),
    "sum": lambda m: h(m).sum(),
    "mean": lambda m: h(m).mean(),
    "std": lambda m: h(m).std(),
    "var_mean": lambda m: m.cat([one.to(m.complex64).view(1) for one in m.var_mean(h(m))]),
    "norm": lambda m: h(m).norm(3),
    "dist": lambda m: m.dist(h(m), h(m) * 2, 5),
    "index_add": lambda m: h(m).index_add(0, m.tensor([0, 0]), h(m)[1:], alpha=1j),
    "index_put": lambda m: h(m).index_put((m.tensor([2, 2]),), h(m)[:2], accumulate=True),
    "index": lambda m: h(m)[[True, False, True]],
    "where": lambda m: m.where(m.tensor([True, False, True]), h(m), 1j),
    "nonzero": lambda m: (h(m) * 0 + m.tensor([0, 1, 1j]).chalf()).nonzero(),
    "tril": lambda m: h(m).expand(3, 3).tril(),
    "full": lambda m: m.full((2,), 1 + 1e6j, dtype=m.complex32),
    "full beyond float32": lambda m: m.full((2,), 1e300, dtype=m.complex32),
    "random": lambda m: (m.manual_seed(3), m.randn(20, dtype=m.complex32) + m.rand(20, dtype=m.complex32))[1],
    "numpy": lambda m: h(m).numpy(),
    "deepcopy": lambda m: __import__("copy").deepcopy(h(m)),
    "conv1d": lambda m: m.nn.functional.conv1d(h(m).view(1, 1, 3), h(m)[:2].view(1, 1, 2)),
    "written": written,
    "gradients": part_gradients,
    "default": default_of_halves,
    "repr": lambda m: repr(h(m)),
    "arange": lambda m: m.arange(3, dtype=m.complex32),
    "result_type": lambda m: str(m.result_type(m.ones(1).half(), 1j)),
    "close": lambda m: m.testing.assert_close(h(m), h(m) * 1.0005),
}


@pytest.mark.parametrize("name", HALVES)
def test_complex32_as_in_pytorch(name):
    mine, theirs = outcome(HALVES[name], nt), outcome(HALVES[name], torch)
    if isinstance(theirs, tuple) and theirs[0] == "NotImplementedError":
        assert mine[0] == theirs[0]
    else:
        assert same(mine, theirs), f"{mine}, PyTorch has {theirs}"


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_complex32_compiled(mode):
    def f(a, b):
        return (a * b + 1j).conj() - a, (a * b).abs(), a.real + b.imag

    a, b = h(nt), h(nt).flip(0)
    compiled = nt.compile(f, mode=mode, fullgraph=True)
    for ours, eager in zip(compiled(a, b), f(a, b), strict=True):
        assert ours.dtype == eager.dtype and nt.equal(ours, eager)
