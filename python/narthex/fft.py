"""torch.fft: discrete Fourier transforms. What works on elements are operators; what is said here is glue."""

from . import _C
from ._absent import getter as _getter
from ._shells import shells_of_module as _shells
from ._tensor import Tensor  # noqa: F401  (PyTorch has it here too)

globals().update(
    {
        name.rpartition(".fft_")[2]: function
        for name, function in _C.functions.items()
        if name.startswith("torch._C._fft.fft_")
    }
)


def _frequencies(name: str, places, n: int, d: float, out, options: dict):
    """`places` divided by the time that n samples take."""
    dtype = options.get("dtype") or _C.get_default_dtype()
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    requires_grad = options.pop("requires_grad", False)
    scale = 1.0 / (n * d) if n * d else float("inf")
    found = _C.cat([_C.arange(*part, **options | {"dtype": dtype}) for part in places]) * scale
    if out is not None:
        return out.copy_(found)
    return found.requires_grad_() if requires_grad else found


def fftfreq(n: int, d: float = 1.0, *, out=None, **options):
    """The frequencies of fft's results, for n samples at a distance of d."""
    return _frequencies("fftfreq", [(0, (n + 1) // 2), (-(n // 2), 0)], n, d, out, options)


def rfftfreq(n: int, d: float = 1.0, *, out=None, **options):
    """The frequencies of rfft's results, for n samples at a distance of d."""
    return _frequencies("rfftfreq", [(0, n // 2 + 1)], n, d, out, options)


_shells(globals(), set())
__getattr__ = _getter("torch.fft")
