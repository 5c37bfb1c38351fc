"""Arguments of a case, as PyTorch tensors, and the way over to Narthex and back.

Each side gets memory of its own with the same numbers, sizes, strides and offset; DLPack carries it over, no copy.
"""

from __future__ import annotations

from functools import cache, reduce
from pathlib import Path
from typing import Any

import narthex as nt
import torch
from narthex import _C

from tests.ops.case_list import all_cases

ROOT = Path(__file__).resolve().parent.parent.parent
SPECIAL = [float("inf"), float("-inf"), float("nan"), -0.0, 0.0, 1e-40, 3e38, -1.5]


@cache
def cases() -> list[dict[str, Any]]:
    """What the entries of ops/ list."""
    return all_cases(ROOT / "ops")


def name_of(case: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, dict) and "tensor" in value:
            kind = "" if value["dtype"] == "float32" else ":" + value["dtype"]
            special = {"special": "!", "mixed": "~", "limits": "^"}.get(str(value["values"]), "")
            return f"x{value['tensor']}{value['layout']}{kind}{special}".replace(" ", "")
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            return f"[{', '.join(text(item) for item in value)}]"
        return str(next(iter(value.values()))) if isinstance(value, dict) else str(value)

    keywords = [f"{name}={text(value)}" for name, value in case["kwargs"].items()]
    return f"{case['op'][6:]}({', '.join([text(value) for value in case['args']] + keywords)})"


def numbers(count: int, dtype: torch.dtype, values: str | list[int], generator: torch.Generator) -> torch.Tensor:
    if isinstance(values, list):  # "in 0..5"
        return torch.randint(values[0], values[1], (count,), generator=generator).to(dtype)
    if values == "positive" and not dtype.is_floating_point and dtype != torch.bool:
        return torch.randint(1, 6, (count,), generator=generator).to(dtype)
    if values == "positive":
        return torch.rand(count, generator=generator, dtype=torch.float64).add(0.5).to(dtype)
    if values == "probability":
        return torch.rand(count, generator=generator, dtype=torch.float64).mul(0.9).add(0.05).to(dtype)
    if values == "special":
        return torch.tensor([SPECIAL[i % len(SPECIAL)] for i in range(count)], dtype=torch.float64).to(dtype)
    if values == "mixed":  # special ones at random places, so that they meet ordinary ones
        choice = torch.randint(0, 2 * len(SPECIAL), (count,), generator=generator).tolist()
        normal = torch.randn(count, generator=generator, dtype=torch.float64).tolist()
        return torch.tensor([(SPECIAL + normal[i : i + 1] * 8)[c] for i, c in enumerate(choice)]).to(dtype)
    if values == "limits" and dtype != torch.bool:  # no 0 and no -1: dividing by them raises here and traps there
        info = torch.iinfo(dtype)
        choice = torch.randint(0, 8, (count,), generator=generator).tolist()
        return torch.tensor([[info.min, info.max, info.max - 1, 1, 2, 3, 4, 5][c] for c in choice], dtype=dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype.is_complex:
        return torch.randn(count, 2, generator=generator, dtype=torch.float64).view(torch.complex128)[:, 0].to(dtype)
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -5
        return torch.randint(low, 6, (count,), generator=generator).to(dtype)
    return torch.randn(count, generator=generator, dtype=torch.float64).to(dtype)


def tensor(spec: dict[str, Any], generator: torch.Generator) -> torch.Tensor:
    """Sizes as given; the layout says how they lie in memory."""
    shape, layout, dtype = spec["tensor"], spec["layout"], getattr(torch, spec["dtype"])
    count = 1
    for size in shape:
        count *= size
    flat = numbers(2 * count + 1, dtype, spec["values"], generator)
    if layout == "t" and len(shape) >= 2:
        return flat[:count].clone().view(shape[::-1]).permute(*range(len(shape) - 1, -1, -1))
    if layout == "s" and shape:
        return flat[: 2 * count].clone().view(*shape[:-1], 2 * shape[-1])[..., ::2]
    if layout == "e" and shape and count:
        return flat[: count // shape[0]].clone().view(1, *shape[1:]).expand(shape)
    if layout == "o":
        return flat[1 : count + 1].view(shape)
    whole = flat[:count].clone().view(shape)
    if layout == "cl":
        return whole.contiguous(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    return whole


def argument(value: Any, generator: torch.Generator) -> Any:
    if isinstance(value, list):
        return [argument(item, generator) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensor(value, generator)
    (kind, word), *_ = value.items()
    return getattr(torch, word) if kind in ("dtype", "memory_format") else word


def arguments(case: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """For PyTorch; the same numbers at every call."""
    generator = torch.Generator().manual_seed(case["seed"])
    return [argument(value, generator) for value in case["args"]], {
        k: argument(v, generator) for k, v in case["kwargs"].items()
    }


def to_ours(value: Any) -> Any:
    """A PyTorch argument as Narthex's; tensors share the memory."""
    if isinstance(value, torch.Tensor):
        ours = _C.from_dlpack(torch.utils.dlpack.to_dlpack(value.detach()))
        return ours.requires_grad_() if value.requires_grad else ours
    if isinstance(value, (list, tuple)):
        return [to_ours(item) for item in value]
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return getattr(nt, str(value).split(".")[1])
    return value


def to_theirs(value: Any) -> torch.Tensor:
    """A Narthex tensor as a PyTorch tensor over the same memory."""
    return torch.from_dlpack(value.detach() if value.requires_grad else value)


def grid_sampler_double_backward(grad_input: Any, grad_grid: Any, *rest: Any) -> Any:
    """What PyTorch's backward of its backward gives."""
    given, modes = [x.detach().requires_grad_() for x in rest[:3]], rest[3:]
    back = getattr(torch.ops.aten, f"grid_sampler_{given[1].dim() - 2}d_backward")
    return torch.autograd.grad(back(*given, *modes, [True, True]), given, (grad_input, grad_grid))


def batch_norm_running(x: Any, weight: Any, bias: Any, root: Any, less: Any) -> Any:
    """PyTorch's evaluation mode, by the running statistics that these are of."""
    h = x * of_channels(root.detach(), x) - of_channels(less.detach(), x)
    h = h if weight is None else h * of_channels(weight, x)
    return (h if bias is None else h + of_channels(bias, x)).to(x.dtype)


def of_channels(w: Any, x: Any) -> Any:
    return w.reshape(-1, *[1] * (x.dim() - 2))


def in_floats(function: Any) -> Any:
    """The function of halves, computed in float32 and rounded once."""

    def called(*args: Any) -> Any:
        dtype = reduce(torch.promote_types, (x.dtype for x in args))
        return function(*(x.float() if x.dtype.itemsize == 2 else x for x in args)).to(dtype)

    return called


# Operators that PyTorch has under no name.
THEIRS = {
    "aten::_sigmoid_entropy": in_floats(lambda x, target: x * (1 - target) - torch.nn.functional.logsigmoid(x)),
    "aten::_sigmoid_entropy_backward": in_floats(lambda g, x, target: g * (torch.sigmoid(x) - target)),
    "aten::_grid_sampler_double_backward": grid_sampler_double_backward,
    "aten::_selected": lambda x, mask, n: x[mask][:n],
    "aten::_counts": lambda x, n: x.bincount(minlength=n) if x.numel() == 0 or x.max() < n else x.float().bincount(),
    "aten::_huber_terms": lambda x, target, delta: torch.ops.aten.huber_loss(x, target, 0, delta),
    "aten::_mse_terms": lambda x, target: torch.ops.aten.mse_loss(x, target, 0),
    "aten::native_batch_norm.running": batch_norm_running,
    "aten::clamp.both": lambda x, low, high: torch.ops.aten.clamp.Tensor(x, low, high),
    "aten::clamp_.both": lambda x, low, high: torch.ops.aten.clamp_.Tensor(x, low, high),
}


def call_theirs(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name in THEIRS:
        return THEIRS[name](*args, **kwargs)
    packet, overload = (name.removeprefix("aten::") + ".default").split(".")[:2]
    return getattr(getattr(torch.ops.aten, packet), overload)(*args, **kwargs)


def call_ours(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    packet, overload = (name.removeprefix("aten::") + ".default").split(".")[:2]
    return getattr(getattr(nt.ops.aten, packet), overload)(*args, **kwargs)


def flat(args: Any) -> list[Any]:
    """Arguments with the elements of lists in the place of the lists."""
    return [item for arg in args for item in (flat(arg) if isinstance(arg, (list, tuple)) else [arg])]


def mapped(args: Any, kind: type, change: Any) -> Any:
    """The same arguments with every tensor of `kind` changed, also in lists."""
    if isinstance(args, (list, tuple)):
        return [mapped(arg, kind, change) for arg in args]
    return change(args) if isinstance(args, kind) else args


def floats(args: list[Any]) -> list[torch.Tensor]:
    """The tensors that can have a gradient."""
    tensors = [arg for arg in flat(args) if isinstance(arg, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]


def parts(value: Any) -> list[Any]:
    """The results of a call that are there."""
    return [part for part in (value if isinstance(value, (tuple, list)) else [value]) if part is not None]


def check_equal(
    ours: Any, theirs: torch.Tensor, strides: bool = True, exact: bool = False, close: dict[str, float] | None = None
) -> None:
    """Sizes, strides (where they mean something), dtype and numbers, within the entry's `close` of that dtype."""
    if isinstance(theirs, (tuple, list)):
        assert len(parts(ours)) == len(parts(theirs))
        for mine, other in zip(parts(ours), parts(theirs)):
            check_equal(mine, other, strides, exact, close)
        return
    got = to_theirs(ours)
    assert got.dtype == theirs.dtype, f"dtype {got.dtype}, PyTorch has {theirs.dtype}"
    assert got.shape == theirs.shape, f"shape {tuple(got.shape)}, PyTorch has {tuple(theirs.shape)}"
    if strides and theirs.numel() > 1:
        meant = [d for d in range(theirs.ndim) if theirs.shape[d] > 1]
        assert [ours.stride()[d] for d in meant] == [theirs.stride()[d] for d in meant], (
            f"strides {ours.stride()}, PyTorch has {theirs.stride()}"
        )
    theirs = theirs.detach()
    if torch.equal(got, theirs):  # most are; what follows takes twenty times as long
        return
    tolerance = {"rtol": 0, "atol": 0} if exact or not (theirs.dtype.is_floating_point or theirs.is_complex()) else {}
    bound = (close or {}).get(str(theirs.dtype).removeprefix("torch."))
    if bound is not None and not exact:
        tolerance = {"rtol": bound, "atol": bound}
    torch.testing.assert_close(got, theirs, equal_nan=True, **tolerance)
