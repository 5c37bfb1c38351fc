"""torch.signal.windows: weights that fade out to both sides; and torch's older names of them."""

import math

from .. import _C
from .._absent import getter as _getter


def _place(dtype, layout, device, requires_grad: bool) -> dict:
    return {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


def _checked(name: str, length: int, place: dict) -> dict:
    """What a factory takes of `place`; raises for a length, layout or dtype that there is no window of."""
    if length < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={length}")
    if place["layout"] not in (None, _C.strided):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {place['layout']}")
    dtype = _C.dtype_from(place["dtype"] or _C.get_default_dtype())
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return {"dtype": dtype, "device": place["device"]}


def _made(window, place: dict):
    return window.requires_grad_() if place["requires_grad"] else window


def _window(name: str, length: int, place: dict, make):
    """The window that `make(length, factory)` gives of two and more weights."""
    factory = _checked(name, length, place)
    if length < 2:
        return _made(_C.ones([length], **factory), place)
    return _made(make(factory), place)


def _points(start: float, step: float, length: int, factory: dict):
    return _C.linspace(start, start + step * (length - 1), length, **factory)


def _span(length: int, sym: bool) -> int:
    return length - 1 if sym else length


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype=None,
    layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """exp(-|n - center| / tau)"""
    place = _place(dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = _span(M, sym) / 2 if center is None else center
    return _window("exponential", M, place, lambda f: _C.exp(-_points(-middle / tau, 1 / tau, M, f).abs()))


def cosine(
    M: int, *, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """sin(pi (n + 1/2) / M)"""
    place = _place(dtype, layout, device, requires_grad)
    step = math.pi / (M if sym or M < 1 else M + 1) if M else 0
    return _window("cosine", M, place, lambda f: _points(step / 2, step, M, f).sin())


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype=None,
    layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """exp(-(n / std)^2 / 2), n counted from the middle."""
    place = _place(dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    step = 1 / (std * math.sqrt(2))
    return _window("gaussian", M, place, lambda f: _C.exp(-(_points(-_span(M, sym) / 2 * step, step, M, f) ** 2)))


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype=None,
    layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1."""
    place = _place(dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def make(factory):
        end = min(beta, -beta + (M - 1) * 2 * beta / _span(M, sym))
        x = _C.linspace(-beta, end, M, **factory)
        return _C.i0((beta * beta - x * x).sqrt()) / _C.i0(_C.full([], beta, **factory))

    return _window("kaiser", M, place, make)


def bartlett(
    M: int, *, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """1 - |x|, x from -1 to 1."""
    place = _place(dtype, layout, device, requires_grad)
    return _window("bartlett", M, place, lambda f: 1 - _points(-1.0, 2 / _span(M, sym), M, f).abs())


def general_cosine(
    M: int, *, a, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """The sum of (-1)^k a[k] cos(2 pi k n / (M - 1))."""
    place = _place(dtype, layout, device, requires_grad)
    try:
        weights = list(a)
    except TypeError:
        raise TypeError("Coefficients must be a list/tuple") from None
    if not weights:
        raise ValueError("Coefficients cannot be empty")

    def make(factory):
        angles = _points(0.0, 2 * math.pi / _span(M, sym), M, factory)
        signed = [_C.cos(angles * k) * ((-1) ** k * weight) for k, weight in enumerate(weights)]
        return _C.stack(signed).sum(0)

    return _window("general_cosine", M, place, make)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype=None,
    layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi n / (M - 1))"""
    place = _place(dtype, layout, device, requires_grad)
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **place)


def hamming(
    M: int, *, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """0.54 - 0.46 cos(2 pi n / (M - 1))"""
    place = _place(dtype, layout, device, requires_grad)
    return general_hamming(M, sym=sym, **place)


def hann(
    M: int, *, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """sin(pi n / (M - 1))^2"""
    place = _place(dtype, layout, device, requires_grad)
    return general_hamming(M, alpha=0.5, sym=sym, **place)


def blackman(
    M: int, *, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """general_cosine with 0.42, 0.5, 0.08."""
    place = _place(dtype, layout, device, requires_grad)
    _checked("blackman", M, place)
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **place)


def nuttall(
    M: int, *, sym: bool = True, dtype=None, layout=_C.strided, device=None, requires_grad: bool = False
):  # fmt: skip
    """general_cosine with 0.3635819, 0.4891775, 0.1365995, 0.0106411."""
    place = _place(dtype, layout, device, requires_grad)
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **place)


# ---- torch.hann_window and its kind: one weight less than the symmetric window, with `periodic` ----------------------
def _older(name: str, window_length: int, periodic: bool, place: dict, make):
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    dtype = _C.dtype_from(place.get("dtype") or _C.get_default_dtype())
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    place.pop("pin_memory", None)
    return make(window_length, sym=not periodic, **place)


def hann_window(window_length: int, periodic: bool = True, **place):
    """sin(pi n / (N - 1))^2"""
    return _older("hann_window", window_length, periodic, place, hann)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **place):
    """alpha - beta cos(2 pi n / (N - 1))"""
    make = lambda length, **rest: general_cosine(length, a=[alpha, beta], **rest)  # noqa: E731
    return _older("hamming_window", window_length, periodic, place, make)


def blackman_window(window_length: int, periodic: bool = True, **place):
    """0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1))"""
    return _older("blackman_window", window_length, periodic, place, blackman)


def bartlett_window(window_length: int, periodic: bool = True, **place):
    """1 - |2 n / (N - 1) - 1|"""
    return _older("bartlett_window", window_length, periodic, place, bartlett)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **place):
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1."""
    make = lambda length, **rest: kaiser(length, beta=beta, **rest)  # noqa: E731
    return _older("kaiser_window", window_length, periodic, place, make)


__getattr__ = _getter("torch.signal.windows")
