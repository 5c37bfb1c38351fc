"""make_tensor: tensors of any dtype with random elements, the same as PyTorch's from the same seed."""

import math

import narthex as torch

_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def _limits(dtype) -> tuple:
    """The lowest and the highest bound that a dtype has, and the usual ones; of integers the high ones are excluded."""
    if dtype == torch.bool:
        return 0, 2, 0, 2
    if dtype.is_floating_point or dtype.is_complex:
        info = torch.finfo(dtype)
        return info.min, info.max, -9, 9
    info = torch.iinfo(dtype)
    unsigned = str(dtype).rpartition(".")[2] in _UNSIGNED
    return info.min, info.max + 1, 0 if unsigned else -9, 10


def _bounds(dtype, low, high) -> tuple:
    lowest, highest, usual_low, usual_high = _limits(dtype)
    low = usual_low if low is None else low
    high = usual_high if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {dtype} only supports [{lowest}, {highest})"
        )
    low, high = max(low, lowest), min(high, highest)
    if not (dtype.is_floating_point or dtype.is_complex):
        low, high = math.ceil(low), math.ceil(high)
    return low, high


def _uniform(tensor, low, high):
    """Filled with [low, high), in halves where that is wider than one draw may be."""
    if high - low >= torch.finfo(tensor.dtype).max:
        return tensor.uniform_(low / 2, high / 2).mul_(2)
    return tensor.uniform_(low, high)


def _draw(shape: tuple, dtype, device, low, high):
    if dtype.is_complex:
        result = torch.empty(shape, device=device, dtype=dtype)
        _uniform(torch.view_as_real(result), low, high)
        return result
    if dtype.is_floating_point and dtype.itemsize > 1:
        return _uniform(torch.empty(shape, device=device, dtype=dtype), low, high)
    if dtype.is_floating_point:
        return torch.empty(shape, device=device, dtype=torch.float32).uniform_(low, high).to(dtype)
    return torch.randint(low, high, shape, device=device, dtype=dtype)


def make_tensor(
    *shape,
    dtype,
    device,
    low=None,
    high=None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format=None,
):
    """A tensor with elements drawn evenly from [low, high); by default from -9 to 9, of unsigned integers from 0."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    differentiable = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not differentiable:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    low, high = _bounds(dtype, low, high)
    spread = noncontiguous and math.prod(shape) > 1
    result = _draw((*shape[:-1], 2 * shape[-1]) if spread else shape, dtype, device, low, high)
    if spread:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = torch.finfo(dtype).tiny if differentiable else 1
    return result.requires_grad_() if requires_grad else result
