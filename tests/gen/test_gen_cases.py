"""Every case of every entry against PyTorch: the result's dtype, size, strides and elements, the gradients, and errors
with their type and key phrase. Both sides start from one seed, which is the case's own."""

import pytest

torch = pytest.importorskip("torch")
nt = pytest.importorskip("narthex")

FORMATS = {
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
}
NARROW = {torch.float16: (1e-3, 1e-3), torch.bfloat16: (1.6e-2, 1e-2)}


def values(shape, dtype, kind, generator):
    if isinstance(kind, list):
        return torch.randint(kind[0], max(kind[1], kind[0] + 1), shape, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 9, shape, generator=generator).to(dtype)
    x = torch.randn(shape, generator=generator)
    if kind == "special":
        pool = torch.tensor([float("inf"), float("-inf"), float("nan"), -0.0, 1e-40, 1.0])
        x = torch.where(
            torch.rand(shape, generator=generator) < 0.5, pool[torch.randint(0, 6, shape, generator=generator)], x
        )
    if kind in ("unit", "probs"):
        x = x.sigmoid()
    return (x.abs() if kind == "positive" else x).to(dtype)


def tensor(spec, generator):
    """A tensor of the given layout: t transposed, s every second, e expanded, o at an odd offset, cl channels last."""
    shape, dtype, layout = spec["tensor"], getattr(torch, spec["dtype"]), spec["layout"]
    x = values(shape, dtype, spec["values"], generator)
    if layout == "t" and len(shape) >= 2:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "s" and shape:
        wide = torch.zeros([*shape[:-1], 2 * shape[-1]], dtype=dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == "e" and shape and shape[0] > 0:
        return x[:1].expand(shape)
    if layout == "o":
        room = torch.zeros(x.numel() + 1, dtype=dtype)
        return room[1:].view(shape).copy_(x)
    return x.to(memory_format=torch.channels_last) if layout == "cl" else x


def build(value, generator):
    if isinstance(value, dict) and "tensor" in value:
        return tensor(value, generator)
    if isinstance(value, dict):
        if "dtype" in value:
            return getattr(torch, value["dtype"])
        return FORMATS[value["memory_format"]]
    return [build(v, generator) for v in value] if isinstance(value, list) else value


def ours(value):
    """PyTorch's value as Narthex's, sharing memory for tensors."""
    if isinstance(value, torch.Tensor):
        return nt.from_dlpack(value)
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return getattr(nt, str(value).removeprefix("torch."))
    return [ours(v) for v in value] if isinstance(value, list) else value


def operator(library, name):
    base, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(library.ops.aten, base), overload or "default")


def arguments(case):
    generator = torch.Generator().manual_seed(case["seed"])
    return [build(a, generator) for a in case["args"]], {k: build(v, generator) for k, v in case["kwargs"].items()}


def same(mine, theirs, elements=True):
    if not elements:
        assert str(mine.dtype) == str(theirs.dtype) and tuple(mine.shape) == tuple(theirs.shape)
        assert mine.stride() == theirs.stride()
        return
    back = torch.from_dlpack(mine.detach())
    assert back.dtype == theirs.dtype and back.shape == theirs.shape
    if theirs.numel() and all(n != 1 for n in theirs.shape):  # strides of dimensions of size 1 say nothing
        assert mine.stride() == theirs.stride()
    rtol, atol = NARROW.get(theirs.dtype, (None, None))
    torch.testing.assert_close(back, theirs.detach(), rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


def test_case(case):
    args, kwargs = arguments(case)
    mine = [
        ours(
            a.clone(memory_format=torch.preserve_format)
            if isinstance(a, torch.Tensor) and case["op"].split(".")[0].endswith("_")
            else a
        )
        for a in args
    ]
    my_kwargs = {k: ours(v) for k, v in kwargs.items()}
    if "error" in case:
        with pytest.raises(getattr(__import__("builtins"), case["error"]["type"])) as info:
            operator(nt, case["op"])(*mine, **my_kwargs)
        assert case["error"]["text"] in str(info.value)
        with pytest.raises(Exception):  # noqa: B017
            operator(torch, case["op"])(*args, **kwargs)
        return
    torch.manual_seed(case["seed"])
    nt.manual_seed(case["seed"])
    same(
        operator(nt, case["op"])(*mine, **my_kwargs), operator(torch, case["op"])(*args, **kwargs), not case.get("meta")
    )


def differentiable(case):
    floats = [k for k, a in enumerate(case["args"]) if isinstance(a, dict) and a.get("dtype") in ("float32", "float64")]
    in_place = case["op"].split(".")[0].endswith("_") and not case["op"].endswith("_like")
    return [] if "error" in case or case.get("meta") or in_place or case["random"] else floats


def test_gradient(case):
    inputs = differentiable(case)
    args, kwargs = arguments(case)
    mine = [ours(a) for a in args]
    for k in inputs:
        args[k] = args[k].detach().requires_grad_()
        mine[k].requires_grad_()
    theirs = operator(torch, case["op"])(*args, **kwargs)
    result = operator(nt, case["op"])(*mine, **{k: ours(v) for k, v in kwargs.items()})
    if not theirs.requires_grad:
        assert not result.requires_grad
        return
    g = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(case["seed"])).to(theirs.dtype)
    expected = torch.autograd.grad(theirs, [args[k] for k in inputs], g)
    found = nt.autograd.grad(result, [mine[k] for k in inputs], ours(g))
    for mine_grad, their_grad in zip(found, expected):
        same(mine_grad, their_grad.contiguous() if mine_grad.is_contiguous() else their_grad)


def fits(test, case):
    """Whether a test has a use for a case; conftest.py asks."""
    if test == "test_gradient":
        return bool(differentiable(case))
    return test == "test_case" or ("error" not in case and test.removeprefix("test_") in case["forms"])


def run_form(case, which):
    """In-place and out forms give the functional form's numbers, or fail where PyTorch's do."""
    name = case["forms"][which]
    args, kwargs = arguments(case)
    if which == "inplace":
        args[0] = args[0].clone()
    mine = [ours(a.clone() if which == "inplace" and k == 0 else a) for k, a in enumerate(args)]
    my_kwargs = {k: ours(v) for k, v in kwargs.items()}
    if which == "out":
        result = operator(torch, case["op"])(*args, **kwargs)
        kwargs["out"], my_kwargs["out"] = torch.empty_like(result), ours(torch.empty_like(result))
    try:
        theirs = operator(torch, name)(*args, **kwargs)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            operator(nt, name)(*mine, **my_kwargs)
        return
    same(operator(nt, name)(*mine, **my_kwargs), theirs)


def test_inplace(case):
    run_form(case, "inplace")


def test_out(case):
    run_form(case, "out")
